"""An in-memory store and clock: keeps real log records, and fails on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from zlib import crc32

import msgspec

from gantry_wire.messages.batch import BatchItem
from gantry_wire.messages.ids import offset_message_id, pack_host
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_KEY,
    KEYS,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    parse_properties,
)
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.records.message_record import build_record, decode_record
from gantry_wire.sql92.compiling import compile_filter
from gantry_wire.subscription import TagFilter
from gateway.ports.stores import (
    GroupSettings,
    PeerAway,
    Pulled,
    QueueBounds,
    QueueProgress,
    Stored,
    StoreRefused,
    TopicSettings,
)

LEVELS_MS = (1000, 5000, 10_000, 30_000, *(60_000 * n for n in (*range(1, 11), 20, 30, 60, 120)))
CLIENT_HOST = pack_host("127.0.0.1", 40000)


class MemoryClocks:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.ms = 1_767_225_600_000

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.ms += int(seconds * 1000)


class MemoryStore:
    """A store that keeps records. `refuse` and `away` make the next calls fail."""

    def __init__(self, broker: str, address: str, clocks: MemoryClocks) -> None:
        self._broker, self.address, self._clocks = broker, address, clocks
        host, _, port = address.rpartition(":")
        self.host = pack_host(host, int(port))
        self.kept_topics: dict[str, TopicSettings] = {}
        self.kept_groups: dict[str, GroupSettings] = {}
        self.kept_settings = {"brokerName": broker, "maxTransferCountOnMessageInMemory": "32"}
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.by_position: dict[int, bytes] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.keys: dict[tuple[str, str], tuple[int, Stored]] = {}
        self.position = 0
        self.calls: list[str] = []
        self.refuse: StoreRefused | None = None
        self.away: PeerAway | None = None
        self.is_durable = True
        self.count_max = 32
        self.removing = 0
        """How many more pulls find that retention removes what they would answer."""
        self._arrived = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self.kept_topics["GANTRY_SYS_PROBE"] = TopicSettings("GANTRY_SYS_PROBE", 1, 1, 6)
        self.redriven_letters: dict[str, list[tuple[int, int]]] = {}
        self.min_offsets: dict[tuple[str, int], int] = {}
        self.given_again = 0
        """The number of messages that a reset delivers again above the committed offset."""

    @property
    def broker(self) -> str:
        return self._broker

    def _enter(self, call: str) -> None:
        self.calls.append(call)
        if self.away is not None:
            raise self.away
        if self.refuse is not None:
            raise self.refuse

    def _topic(self, topic: str) -> TopicSettings:
        if topic not in self.kept_topics:
            raise StoreRefused(17, f"topic[{topic}] not exist, apply first please!")
        return self.kept_topics[topic]

    async def put(
        self, topic: str, queue_id: int, body: bytes, properties: str, sys_flag=0, born_ms=None
    ) -> Stored:
        self._enter("send")
        return self._put(
            topic, queue_id, 0, body, properties.encode(), strict=True, sys_flag=sys_flag, born_ms=born_ms
        )

    def send(
        self, topic: str, queue_id: int, body: bytes, properties: str, on_result, *, sys_flag=0, born_ms=None
    ) -> None:
        async def run() -> list[Stored]:
            return [await self.put(topic, queue_id, body, properties, sys_flag, born_ms)]

        self.pass_on(run(), on_result)

    def send_batch(
        self, topic: str, queue_id: int, messages: Sequence[BatchItem], on_result, *, born_ms=None
    ) -> None:
        async def run() -> list[Stored]:
            self._enter("send_batch")
            return [
                self._put(topic, queue_id, one.flag, one.body, one.properties, strict=False, born_ms=born_ms)
                for one in messages
            ]

        self.pass_on(run(), on_result)

    def pass_on(self, answering, on_result) -> None:
        async def run() -> None:
            try:
                outcome = await answering
            except (StoreRefused, PeerAway) as error:
                outcome = error
            on_result(outcome)

        task = asyncio.ensure_future(run())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _put(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        body: bytes,
        properties: bytes,
        *,
        strict: bool,
        sys_flag=0,
        born_ms=None,
    ) -> Stored:
        settings = self._topic(topic)
        if queue_id >= settings.write_queues:
            raise StoreRefused(29, f"request queueId[{queue_id}] is illegal")
        named = parse_properties(properties)
        content = crc32(body)
        known = self.keys.get((topic, named.get(GANTRY_KEY, "")))
        if known is not None and GANTRY_KEY in named:
            if known[0] == content:
                return msgspec.structs.replace(known[1], is_duplicate=True)
            if strict:
                raise StoreRefused(13, "the key is known with another content", "IDEMPOTENCY_CONFLICT")
            return Stored("", "", queue_id, -1, True, False, 13, "IDEMPOTENCY_CONFLICT")
        deliver_ms = self._deliver_ms(named)
        is_delayed = deliver_ms is not None and deliver_ms > self._clocks.wall_ms()
        place = (SCHEDULE_TOPIC, 0) if is_delayed else (topic, queue_id)
        queue = self.queues.setdefault(place, [])
        record = build_record(
            place[0].encode(), place[1], len(queue), self.position, body, properties, flag, sys_flag,
            self._clocks.wall_ms() if born_ms is None else born_ms, CLIENT_HOST, self._clocks.wall_ms(), self.host,
        )  # fmt: skip
        stored = Stored(
            offset_message_id(self.host, self.position),
            named.get(UNIQ_KEY, ""),
            queue_id,
            len(queue),
            self.is_durable,
            False,
            deliver_ms=deliver_ms if is_delayed else None,
        )
        queue.append(record)
        self.by_position[self.position] = record
        self.position += len(record)
        if GANTRY_KEY in named:
            self.keys[topic, named[GANTRY_KEY]] = (content, stored)
        self._arrived.set()
        return stored

    def _deliver_ms(self, named: dict[str, str]) -> int | None:
        if DELAY in named:
            return self._clocks.wall_ms() + LEVELS_MS[int(named[DELAY]) - 1]
        if TIMER_DELAY_MS in named:
            return self._clocks.wall_ms() + int(named[TIMER_DELAY_MS])
        return int(named[TIMER_DELIVER_MS]) if TIMER_DELIVER_MS in named else None

    async def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        wait_ms: int,
        tags: str,
        *,
        sql: str = "",
    ) -> Pulled:
        self._enter("pull")
        settings = self._topic(topic)
        if queue_id >= settings.read_queues:
            raise StoreRefused(29, f"queueId[{queue_id}] is illegal")
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            queue = self.queues.get((topic, queue_id), [])
            low = self.min_offsets.get((topic, queue_id), 0)
            if offset > len(queue) or (offset < low and queue):
                return Pulled(21, len(queue) if offset > len(queue) else low, low, len(queue), b"")
            left = deadline - asyncio.get_running_loop().time()
            if offset < len(queue) or left <= 0:
                break
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                continue
        if offset == len(queue):
            return Pulled(19, offset, low, len(queue), b"")
        if self.removing:  # retention removes what each read wants
            self.removing -= 1
            return Pulled(20, offset, low, len(queue), b"")
        part = queue[offset : offset + min(count_max, self.count_max)]
        following = offset + len(part)
        wanted = TagFilter.parse(tags)
        condition = compile_filter(sql) if sql else None
        part = [r for r in part if condition is None or condition.matches(decode_record(r).properties)]
        kept = [r for r in part if not tags or decode_record(r).property_map().get(TAGS) in wanted.names]
        return Pulled(0 if kept else 20, following, low, len(queue), b"".join(kept))

    async def message_at(self, position: int) -> bytes:
        self._enter("message_at")
        if position not in self.by_position:
            raise StoreRefused(1, f"can not find message by the offset, {position}")
        return self.by_position[position]

    async def messages_by_key(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int, *, is_unique: bool
    ) -> bytes:
        self._enter("messages_by_key")
        found: list[bytes] = []
        for record in self.by_position.values():
            named = decode_record(record).property_map()
            held = [named.get(UNIQ_KEY)] if is_unique else named.get(KEYS, "").split()
            if decode_record(record).topic.decode() == topic and key in held:
                found.append(record)
        if not found:
            raise StoreRefused(22, "can not find message, maybe time range not correct")
        return b"".join(r for r in found[:count_max] if begin_ms <= decode_record(r).store_timestamp < end_ms)

    async def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        self._enter("offset_at")
        queue = self.queues.get((topic, queue_id), [])
        return next(
            (n for n, r in enumerate(queue) if decode_record(r).store_timestamp >= timestamp_ms), len(queue)
        )

    async def redriven(self, group: str, from_offset: int) -> list[tuple[int, int]]:
        self._enter("redriven")
        return [one for one in self.redriven_letters.get(group, []) if one[1] > from_offset]

    async def queue_bounds(self, topic: str) -> list[QueueBounds]:
        self._enter("queue_bounds")
        count = max(self._topic(topic).read_queues, self._topic(topic).write_queues)
        return [
            QueueBounds(n, self.min_offsets.get((topic, n), 0), len(self.queues.get((topic, n), [])))
            for n in range(count)
        ]

    async def put_topic(self, settings: TopicSettings) -> None:
        self._enter("put_topic")
        self.kept_topics[settings.topic] = settings

    async def delete_topic(self, topic: str) -> None:
        self._enter("delete_topic")
        self.kept_topics.pop(topic, None)

    async def topic(self, topic: str) -> TopicSettings:
        self._enter("topic")
        if topic not in self.kept_topics:
            raise StoreRefused(17, f"No topic in this broker. topic: {topic}", "")
        return self.kept_topics[topic]

    async def topics(self) -> list[TopicSettings]:
        self._enter("topics")
        return list(self.kept_topics.values())

    async def groups(self) -> list[GroupSettings]:
        self._enter("groups")
        return list(self.kept_groups.values())

    async def put_group(self, settings: GroupSettings) -> None:
        self._enter("put_group")
        self.kept_groups[settings.group] = settings

    async def delete_group(self, group: str, *, with_offsets: bool) -> None:
        self._enter("delete_group")
        self.kept_groups.pop(group, None)
        if with_offsets:
            self.offsets = {key: value for key, value in self.offsets.items() if key[0] != group}

    async def set_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._enter("set_offset")
        self.offsets[group, topic, queue_id] = offset

    async def reset_offset(self, group: str, topic: str, queue_id: int, offset: int, *, dry: bool) -> int:
        self._enter("reset_dry" if dry else "reset_offset")
        if not dry:
            self.offsets[group, topic, queue_id] = offset
        return self.given_again

    async def progress(self, group: str, topic: str) -> list[QueueProgress]:
        self._enter("progress")
        topics = {topic} if topic else {t for g, t, _ in self.offsets if g == group}
        return [
            QueueProgress(t, q, self.offsets.get((group, t, q), 0), len(self.queues.get((t, q), [])))
            for t in sorted(topics & self.kept_topics.keys())
            for q in range(self.kept_topics[t].read_queues)
        ]

    async def runtime_info(self) -> dict[str, str]:
        self._enter("runtime_info")
        return {"brokerVersionDesc": "V5_3_3", "msgPutTotalTodayNow": "5", "msgPutTotalTodayMorning": "2"}

    async def settings(self, changes: dict[str, str]) -> dict[str, str]:
        self._enter("settings")
        self.kept_settings |= changes
        return self.kept_settings
