"""The records of an ordinary decision: the message and its op message, adjacent in the log.

Writes byte for byte what `settling/planning.py` plans and `settling/entry.py` builds, in a fifth of the
time: messages of one queue share a template, and a body keeps the checksum of its half. Decides nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast
from zlib import crc32

from broker_store.commit.message import Mode, Placement
from broker_store.commit.queues import Queue
from broker_store.settling.mark import MARK_SUFFIX_BYTES_MAX, MARK_SUFFIXES, Source, mark_parts
from broker_store.settling.placed import Placed
from broker_store.settling.planning import FindTarget
from broker_store.transactions.outputs import COMMITTED, ROLLED_BACK
from broker_store.transactions.recent_halves import Half, HalfKind
from gantry_wire.half_message import OP_PROPERTIES, ROLLBACK_OP_PROPERTIES
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC
from gantry_wire.properties import format_properties, tags_code
from gantry_wire.record import CRC_MASK, SYS_TRANSACTION_COMMIT, behind_body, fixed_layout, properties_length
from gantry_wire.settle_headers import OutputPlace

HALF_SOURCE: Source = (HALF_TOPIC, 0, "")
_BEFORE, _BEHIND = mark_parts(HALF_SOURCE)
_ALONE, _FIRST, _SECOND = (
    _BEHIND + MARK_SUFFIXES[total][number] for total, number in ((1, 1), (2, 1), (2, 2))
)
"""What follows the offset in a mark: of an op message alone, of a message, of the op message after it."""
_MARK_BYTES = len(_BEFORE) + len(_ALONE)
"""Bytes of a mark without the digits of the offset."""
_PROPERTIES_MAX = PROPERTIES_BYTES_MAX - _MARK_BYTES - MARK_SUFFIX_BYTES_MAX - 20
_OP_TEXTS = {True: format_properties(OP_PROPERTIES), False: format_properties(ROLLBACK_OP_PROPERTIES)}
"""Properties of an op message, by whether the half is committed."""
_OP_CODE = tags_code(OP_PROPERTIES["TAGS"])
_LENGTH_BYTES = len(properties_length(0))

_Template = tuple[Queue, int, bytes, list[Placed]]
"""Template of records: queue, magic, the bytes after the body, and the list of records that become visible with them."""


class HalfDecision(NamedTuple):
    """A decision about a half, as `Decided`. Its outputs are built when first read."""

    queue: Queue | None
    """Queue of the message. None when rolled back."""
    offset: int
    position: int
    op_queue: Queue
    op_offset: int
    op_position: int
    time_ms: int

    @property
    def outputs(self) -> list[OutputPlace]:
        """See Decided."""
        op = OutputPlace(self.op_queue.topic, self.op_queue.queue_id, self.op_offset, self.op_position)
        if self.queue is None:
            return [op]
        return [OutputPlace(self.queue.topic, self.queue.queue_id, self.offset, self.position), op]

    @property
    def outcome(self) -> str:
        """See Decided."""
        return ROLLED_BACK if self.queue is None else COMMITTED


_new_decision = cast("Callable[[type[HalfDecision], tuple[Any, ...]], HalfDecision]", tuple.__new__)


class DecisionRecords:
    """Builds the decisions of one placement."""

    def __init__(
        self, find_target: FindTarget, at: Placement, held: list[Placed], shown: list[Placed]
    ) -> None:
        """`held` receives records that wait for a flush, `shown` those visible after the write. Raises CannotPlan."""
        self._find_target = find_target
        self._at = at
        self._held, self._shown = held, shown
        self._templates: dict[HalfKind, _Template] = {}
        self._op = self._template(OP_HALF_TOPIC, 0)
        self._op_tails: dict[tuple[bool, int], bytes] = {}
        self._born_host = b""
        self._layout, self._host_bits = fixed_layout(b"", at.store_host)

    def put(self, half: Half, *, is_commit: bool) -> HalfDecision | None:
        """Build a decision's records.

        None when there is no room. Raises CannotPlan or LogError. Changes nothing in these cases.
        """
        (
            kind, half_offset, half_position, _, unique_key, keys, code, flag, sys_flag, born_ms, born_host, times, body,
            crc, properties,
        ) = half  # fmt: skip
        if born_host != self._born_host:
            self._born_host = born_host
            self._layout, self._host_bits = fixed_layout(born_host, self._at.store_host)
        at, layout, host_bits = self._at, self._layout, self._host_bits
        pack, fixed_size, store_ms, store_host = layout.pack, layout.size, at.store_ms, at.store_host
        digits = b"%d" % half_offset
        digits_size = len(digits)
        op_queue, op_magic, _, op_placed = self._op
        op_tail = self._op_tails.get((is_commit, digits_size)) or self._op_tail(is_commit, digits_size)
        op_size = fixed_size + 2 * digits_size + len(op_tail) + len(_ALONE)
        queue, offset, size, message, op_end = None, 0, 0, (), _ALONE
        if is_commit:
            template = self._templates.get(kind)
            if template is None:
                template = self._templates[kind] = self._template(kind.topic, kind.queue_id)
            queue, magic, middle, placed = template
            body_size, text_size = len(body), len(properties)
            if text_size > _PROPERTIES_MAX:
                return None
            text_size += _MARK_BYTES + digits_size
            size = fixed_size + body_size + len(middle) + _LENGTH_BYTES + text_size
            position = at.log.reserve(size + op_size)
            offset = queue.next_offset
            head = pack(
                size, magic, crc, queue.queue_id, flag, offset, position, sys_flag | host_bits | SYS_TRANSACTION_COMMIT,
                born_ms, born_host, store_ms, store_host, times, half_position, body_size,
            )  # fmt: skip
            message = head, body, middle, properties_length(text_size), properties, _BEFORE, digits, _FIRST
            op_end = _SECOND
            queue.next_offset = offset + 1
            queue.put_bytes += size
            placed.append((queue, offset, position, size, code, unique_key, keys))
        else:
            position = at.log.reserve(op_size)
        op_offset, op_position = op_queue.next_offset, position + size
        op_head = pack(
            op_size, op_magic, crc32(digits) & CRC_MASK, op_queue.queue_id, flag, op_offset, op_position, host_bits,
            born_ms, born_host, store_ms, store_host, 0, 0, digits_size,
        )  # fmt: skip
        at.log.put(b"".join((*message, op_head, digits, op_tail, digits, op_end)))
        op_queue.next_offset = op_offset + 1
        op_queue.put_bytes += op_size
        op_placed.append((op_queue, op_offset, op_position, op_size, _OP_CODE, None, None))
        decision = queue, offset, position, op_queue, op_offset, op_position, store_ms
        return _new_decision(HalfDecision, decision)

    def _template(self, topic: str, queue_id: int) -> _Template:
        target, queue = self._find_target(topic, queue_id)
        magic, middle = behind_body(queue.topic_bytes)
        return queue, magic, middle, self._held if target.mode != Mode.ASYNC else self._shown

    def _op_tail(self, is_commit: bool, digits: int) -> bytes:
        """Return the bytes of an op message between its body and the offset in its mark.

        `digits` is the length of the offset.
        """
        text = _OP_TEXTS[is_commit]
        length = properties_length(len(text) + _MARK_BYTES + digits)
        tail = self._op_tails[is_commit, digits] = self._op[2] + length + text + _BEFORE
        return tail
