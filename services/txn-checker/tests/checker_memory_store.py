"""A store in memory: real records in the half queue, settled by the rules, with failures on request."""

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import edit_properties, format_properties
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.private_requests.settling import OutputPlace, SettleResult, SettleStatus
from gantry_wire.records.message_record import build_record, decode_record
from txn_checker.ports import ClaimLost, Settled, StoreFailed

HOST = pack_host("127.0.0.1", 10911)
CLIENT = pack_host("127.0.0.1", 40000)


class CheckerMemoryStore:
    """One store. Time moves only when a test moves it."""

    def __init__(self, broker="broker-a", address="127.0.0.1:10911"):
        self.broker, self.address = broker, address
        self.now_ms = 1_700_000_000_000
        self.topics = {HALF_TOPIC: [], TRANS_CHECK_MAX_TIME_TOPIC: []}
        self.decided = {HALF_TOPIC: set(), TRANS_CHECK_MAX_TIME_TOPIC: set()}
        self.epoch = 7
        self.outcomes = []
        self.ops = []
        self.asked = []
        self.channels = set()
        self.away = False
        self.status = ""
        self.calls = 0
        self._position = 0

    # Controls of the test

    def begin(self, key="U1", group="pg", topic="orders", queue_id=2, body=b"pay", **properties):
        named = {
            "TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": key, **properties,
            "REAL_TOPIC": topic, "REAL_QID": str(queue_id),
        }  # fmt: skip
        return self._put(HALF_TOPIC, format_properties(named), body=body)

    def decide(self, offset):
        self.decided[HALF_TOPIC].add(offset)

    def record(self, topic, offset):
        return decode_record(self.topics[topic][offset])

    # The port

    async def settled(self, topic):
        self._enter()
        decided, end = self.decided[topic], len(self.topics[topic])
        cursor = next((n for n in range(end) if n not in decided), end)
        ranges = []
        for offset in sorted(n for n in decided if n > cursor):
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
        return Settled(cursor, end, self.now_ms, ranges)

    async def read(self, topic, offset, count):
        self._enter()
        part = self.topics[topic][offset : offset + min(count, 32)]
        return [decode_record(raw) for raw in part], offset + len(part)

    async def record_at(self, position):
        self._enter()
        return next(
            raw for raws in self.topics.values() for raw in raws if decode_record(raw).position == position
        )

    async def settle(self, topic, epoch, items):
        self._enter()
        if epoch != self.epoch:
            raise ClaimLost("epoch is over")
        return [self._settle(topic, item) for item in items]

    async def ask_producer(self, ask):
        self._enter()
        if ask.producer_group not in self.channels:
            return False
        self.asked.append(ask)
        return True

    def _settle(self, topic, item):
        if item.offset in self.decided[topic]:
            return SettleResult(item.offset, SettleStatus.ALREADY)
        if self.status:
            return SettleResult(item.offset, self.status)
        half = self.record(topic, item.offset)
        assert half.position == item.position
        places = []
        for output in item.outputs:
            if output.topic == OP_HALF_TOPIC:
                self.ops.append(output.body_base64)
                continue
            raw = edit_properties(half.properties, output.set, output.drop)
            offset = self._put(output.topic, raw, half.born_timestamp, half.body)
            places.append(OutputPlace(output.topic, 0, offset, self.record(output.topic, offset).position))
        self.decided[topic].add(item.offset)
        self.outcomes.append((item.offset, item.outcome))
        return SettleResult(item.offset, SettleStatus.SETTLED, places)

    def _put(self, topic, properties, born_ms=None, body=b"pay"):
        queue = self.topics[topic]
        raw = build_record(
            topic.encode(), 0, len(queue), self._position, body, properties, 0, 0,
            self.now_ms if born_ms is None else born_ms, CLIENT, self.now_ms, HOST,
        )  # fmt: skip
        self._position += len(raw)
        queue.append(raw)
        return len(queue) - 1

    def _enter(self):
        self.calls += 1
        if self.away:
            raise StoreFailed("away")
