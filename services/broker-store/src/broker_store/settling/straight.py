"""The short way of ordinary decisions: one message made of the item's own record.

Lays down byte for byte what `planning.py` plans and `entry.py` builds, for a third of the time: what one message shares with the
next of its queue (a lane) is worked out once. Says of everything else that it is not ordinary. Decides nothing.
"""

from zlib import crc32

from broker_store.message import Mode, Placement
from broker_store.queues import Queue
from broker_store.settling.gathering import Gathered
from broker_store.settling.mark import MARK, MARK_SUFFIX_BYTES_MAX, MARK_SUFFIXES, Source, mark_parts
from broker_store.settling.placed import Placed, text_of, unique_key_of
from broker_store.settling.planning import FindTarget, remover
from broker_store.targets import Target
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import find_property, tags_code
from gantry_wire.record import (
    CRC_MASK,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
    behind_body,
    fixed_layout,
    properties_length,
)
from gantry_wire.settle_headers import OutputPlace, SettleOutput

_KEPT_FLAGS = ~(SYS_TRANSACTION_MASK | SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)
_END = b"\x02"
_END_BYTE = 2
_LENGTH_BYTES = len(properties_length(0))
_SUFFIX_ALONE = MARK_SUFFIXES[1][1]


class _Lane:
    """What messages share that were asked for in the same words."""

    __slots__ = ("is_commit", "is_sync", "magic", "middle", "output", "queue", "remove", "topic")

    def __init__(self, output: SettleOutput, target: Target, queue: Queue) -> None:
        self.output = output
        self.queue = queue
        self.topic = queue.topic
        self.is_sync = target.mode != Mode.ASYNC
        self.is_commit = output.transaction == "commit"
        self.magic, self.middle = behind_body(queue.topic_bytes)
        self.remove = remover(output.drop) if output.drop else None


class Straight:
    """Lays down the ordinary items of one request in one placement."""

    def __init__(
        self,
        source: Source,
        find_target: FindTarget,
        at: Placement,
        held: list[Placed],
        shown: list[Placed],
    ) -> None:
        """`held` gets the records that wait for a flush, `shown` those that are visible as soon as they are written."""
        self._before, self._behind = mark_parts(source)
        self.find_target = find_target
        self._at = at
        self._held, self._shown = held, shown
        self._lanes: dict[tuple[str, int], _Lane | None] = {}
        self._lane: _Lane | None = None
        """That of the last item: the next one's, most times."""
        self._born_host = b""
        self._layout, self._host_bits = fixed_layout(b"", at.store_host)

    def put(self, gathered: Gathered) -> list[OutputPlace] | None:
        """Lay an item's records down; None, and nothing done, when it is not ordinary. Raises CannotPlan, LogError: nothing is done then."""
        item, record = gathered.item, gathered.record
        if record is None or len(item.outputs) != 1:
            return None
        output, lane = item.outputs[0], self._lane
        if lane is None or (lane.output is not output and lane.output != output):
            lane = self._lane = self._lane_of(output)
        properties = record.properties
        if lane is None or MARK in properties or not properties or properties[-1] != _END_BYTE:
            return None
        if lane.remove is not None:
            properties = lane.remove(b"", _END + properties)[1:]
        mark = b"%b%d%b" % (self._before, item.offset, self._behind)
        if len(properties) + len(mark) + MARK_SUFFIX_BYTES_MAX > PROPERTIES_BYTES_MAX:
            return None
        if record.born_host != self._born_host:
            self._born_host = record.born_host
            self._layout, self._host_bits = fixed_layout(self._born_host, self._at.store_host)
        return self._put_message(gathered, lane, properties, mark)

    def _lane_of(self, output: SettleOutput) -> _Lane | None:
        key = (output.topic, output.queue_id)
        lane = self._lanes.get(key)
        if lane is None and key not in self._lanes:
            lane = self._lanes[key] = self._make_lane(output)
        return lane if lane is not None and lane.output == output else None

    def _make_lane(self, output: SettleOutput) -> _Lane | None:
        is_own = output.body == "item" and output.properties == "item" and not output.set
        # behind -1 stands another queue each time, and of a delayed message the unit tells when it is due
        if not is_own or output.reconsume_times is not None or output.queue_id < 0:
            return None
        if output.topic == SCHEDULE_TOPIC:
            return None
        return _Lane(output, *self.find_target(output.topic, output.queue_id))

    def _put_message(
        self, gathered: Gathered, lane: _Lane, properties: bytes, mark: bytes
    ) -> list[OutputPlace]:
        record = gathered.record
        assert record is not None
        body, middle, log = record.body, lane.middle, self._at.log
        text_size = len(properties) + len(mark) + len(_SUFFIX_ALONE)
        size = self._layout.size + len(body) + len(middle) + _LENGTH_BYTES + text_size
        position = log.reserve(size)
        head = self._head(gathered, lane, size, position)
        log.put(b"".join((head, body, middle, properties_length(text_size), properties, mark, _SUFFIX_ALONE)))
        return [self._note(lane, position, size, properties)]

    def _head(self, gathered: Gathered, lane: _Lane, size: int, position: int) -> bytes:
        record, at, queue = gathered.record, self._at, lane.queue
        assert record is not None
        sys_flag, prepared = record.sys_flag & _KEPT_FLAGS | self._host_bits, 0
        if lane.is_commit:
            sys_flag, prepared = sys_flag | SYS_TRANSACTION_COMMIT, gathered.item.position
        return self._layout.pack(
            size, lane.magic, crc32(record.body) & CRC_MASK, queue.queue_id, record.flag, queue.next_offset, position,
            sys_flag, record.born_timestamp, record.born_host, at.store_ms, at.store_host, record.reconsume_times,
            prepared, len(record.body),
        )  # fmt: skip

    def _note(self, lane: _Lane, position: int, size: int, properties: bytes) -> OutputPlace:
        """Give a message its offset, and remember what makes it visible."""
        queue = lane.queue
        offset = queue.next_offset
        queue.next_offset = offset + 1
        queue.put_bytes += size
        tag = find_property(properties, b"TAGS") if b"TAGS\x01" in properties else None
        keys = text_of(properties, b"KEYS") if b"KEYS\x01" in properties else None
        code = tags_code(tag) if tag else 0
        placed = self._held if lane.is_sync else self._shown
        placed.append((queue, offset, position, size, code, unique_key_of(properties), keys))
        return OutputPlace(lane.topic, queue.queue_id, offset, position)
