"""Requests 60, 61 and 402: what a slave of RocketMQ 5 copies beside topics, groups and offsets. RocketMQ 4.9's does not send them.

There is no timer wheel here. The check point says the same as the wheel of a RocketMQ master would: which messages of `rmq_sys_wheel_timer` are due in
future. A slave that becomes a master delivers from there on: what is due later than the earliest undelivered message may come twice, nothing is lost.
"""

from collections.abc import Callable, Iterator
from struct import Struct

from broker_store.commit.queues import Queue, QueueTable
from broker_store.log.errors import LogError
from broker_store.ports import Commands, LogReader, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.settling.decided.settled_table import SettledTable
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies import fastjson
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.messages.properties import TIMER_OUT_MS
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.records.message_record import decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

CHECK_POINT = Struct(">7q")
"""lastReadTimeMs, lastTimerLogFlushPos, lastTimerQueueOffset, masterTimerQueueOffset; stateVersion, timestamp and counter of its DataVersion."""
LAG_MS = 10_000
"""The slave's log may end before the record by which the last message was delivered: it is asked to deliver the last seconds again."""
READ_MAX = 1000
"""Waiting messages whose instants are read. With more of them, all instants are later than the store time of the first one."""
PRECISION_MS = 1000
"""Of RocketMQ's wheel."""

Waiting = list[tuple[int, int]]
"""Position and size of records."""


class SlaveRequestHandlers:
    """Handles these requests."""

    def __init__(
        self, log: LogReader, queues: QueueTable, settled: SettledTable, readers: Workers, deferred: DeferredReplies,
        now_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        """`readers` reads records. `now_ms`: store time."""
        self._log, self._queues, self._settled = log, queues, settled
        self._readers, self._deferred, self._now_ms = readers, deferred, now_ms

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: ("adminBroker", self.check_point),
            RequestCode.GET_TIMER_METRICS: ("adminBroker", self.timer_metrics),
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: ("adminBroker", self.modes),
        }

    def check_point(self, peer: Peer, command: Command) -> None:
        """Handle 60."""
        self._deferred.answer(peer, command, self._check_point(command.opaque))

    def timer_metrics(self, _peer: Peer, command: Command) -> bytes:
        """Handle 61: no counts by topic. They have no use but to be shown."""
        body = {"dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0}, "timingCount": {}}
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=fastjson.dumps(body))

    def modes(self, _peer: Peer, command: Command) -> bytes:
        """Handle 402: every group pulls, so no mode is set."""
        body = fastjson.dumps({"messageRequestModeMap": {}})
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    async def _check_point(self, opaque: int) -> bytes:
        queue, read_ms = self._queues.find(TIMER_TOPIC, 0), self._now_ms() - LAG_MS
        end = 0 if queue is None else queue.max_offset
        if queue is not None:
            records, is_all = self._waiting(queue, end)
            if records:
                read_ms = min(read_ms, await self._readers.run(self._earliest_ms, records, is_all))
        body = CHECK_POINT.pack(max(read_ms - read_ms % PRECISION_MS, 0), 0, 0, end, 0, 0, 0)
        return encode_response(ResponseCode.SUCCESS, opaque, body=body)

    def _waiting(self, queue: Queue, end: int) -> tuple[Waiting, bool]:
        """Return where the first undecided messages are, and whether these are all."""
        found = Waiting()
        for first, behind in _undecided(self._settled, queue, end):
            units = queue.read(first, min(behind - first, READ_MAX + 1 - len(found)))
            found += [(position, size) for position, size, _ in CONSUME_QUEUE_UNIT.iter_unpack(units)]
            if len(found) > READ_MAX:
                return found[:1], False
        return found, True

    def _earliest_ms(self, records: Waiting, is_all: bool) -> int:
        """Return the time before which nothing of these, and nothing stored later, is due. Blocks."""
        earliest = 1 << 62
        for position, size in records:
            try:
                record = decode_record(self._log.read(position, size))
            except (LogError, WireError):
                continue  # it is lost: nobody can deliver it
            due_ms = record.readable_properties().get(TIMER_OUT_MS, "") if is_all else ""
            earliest = min(earliest, int(due_ms) if due_ms.isdecimal() else record.store_timestamp)
        return earliest


def _undecided(settled: SettledTable, queue: Queue, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets of undecided items below `end` as [first, behind)."""
    decided = settled.of((queue.topic, queue.queue_id, ""))
    at = decided.cursor
    for first, behind in (*decided.ranges(), (end, end)):
        if at < min(first, end):
            yield at, min(first, end)
        at = behind
