"""The records of an ordinary decision: the message and its op message, adjacent in the log.

Writes byte for byte what `settling/request/output_records.py` plans and `item_decisions.py` builds,
in a fifth of the time: messages of one queue share a template, and a body keeps the checksum of its half.
Decides nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast
from zlib import crc32

from broker_store.commit.gathered_rows import GatheredRows
from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import PROPERTIES_LENGTH_BYTES, Placed, RecordWriter, Row
from broker_store.settling.decided.mark import MARK_SUFFIX_BYTES_MAX, MARK_SUFFIXES, Source, mark_parts
from broker_store.settling.request.output_records import FindTarget
from broker_store.transactions.half_messages.recent_halves import Half, HalfKind
from broker_store.transactions.half_outputs import COMMITTED, ROLLED_BACK
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import format_properties, tags_code
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC
from gantry_wire.private_requests.settling import OutputPlace
from gantry_wire.records.half_message import OP_PROPERTIES, ROLLBACK_OP_PROPERTIES
from gantry_wire.records.message_record import CRC_MASK, SYS_TRANSACTION_COMMIT, properties_length

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

_Template = tuple[Queue, list[Placed]]
"""A queue, and the list of records that become visible with those placed in it."""


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
        self, find_target: FindTarget, at: RecordWriter, held: list[Placed], shown: list[Placed]
    ) -> None:
        """`held` receives records that wait for a flush, `shown` those visible after the write. Raises CannotPlan."""
        self._find_target = find_target
        self._store_ms = at.store_ms
        self._rows = GatheredRows(at)
        self._targets: list[_Template | None] = []
        """Of the gathered decisions: None when rolled back."""
        self._held, self._shown = held, shown
        self._templates: dict[HalfKind, _Template] = {}
        self._op = self._template(OP_HALF_TOPIC, 0)
        self._op_tails: dict[tuple[bool, int], bytes] = {}

    def put(self, half: Half, *, is_commit: bool) -> bool:
        """Build a decision's records. `finish` places them.

        False when its properties have no room for the mark. Raises CannotPlan or LogError. Changes nothing in these cases.
        """
        (
            kind, half_offset, half_position, _, unique_key, keys, code, flag, sys_flag, born_ms, born_host, times, body,
            crc, properties,
        ) = half  # fmt: skip
        digits = b"%d" % half_offset
        digits_size = len(digits)
        op_tail = self._op_tails.get((is_commit, digits_size)) or self._op_tail(is_commit, digits_size)
        op_end = _SECOND if is_commit else _ALONE
        op_size = 2 * digits_size + len(op_tail) + len(op_end)
        op: Row = (
            self._op[0], crc32(digits) & CRC_MASK, flag, 0, born_ms, 0, 0, op_size, (digits, op_tail, digits, op_end), _OP_CODE,
            None, None, None,
        )  # fmt: skip
        if not is_commit:
            self._rows.add((op,), op_size, born_host)
            self._targets.append(None)
            return True
        template = self._templates.get(kind)
        if template is None:
            template = self._templates[kind] = self._template(kind.topic, kind.queue_id)
        queue = template[0]
        text_size, middle = len(properties), queue.behind_body
        if text_size > _PROPERTIES_MAX:
            return False
        text_size += _MARK_BYTES + digits_size
        size = len(body) + len(middle) + PROPERTIES_LENGTH_BYTES + text_size
        message: Row = (
            queue, crc, flag, sys_flag | SYS_TRANSACTION_COMMIT, born_ms, times, half_position, size,
            (body, middle, properties_length(text_size), properties, _BEFORE, digits, _FIRST), code, unique_key, keys, None,
        )  # fmt: skip
        self._rows.add((message, op), size + op_size, born_host)
        self._targets.append(template)
        return True

    def finish(self) -> list[HalfDecision]:
        """Place the records, and return the decisions in the order of putting."""
        op_queue, op_placed = self._op
        store_ms, placed = self._store_ms, iter(self._rows.finish())
        decisions: list[HalfDecision] = []
        for template in self._targets:
            if template is None:
                queue, offset, position = None, 0, -1
            else:
                message = next(placed)
                queue, offset, position, _, _, _, _, _ = message
                template[1].append(message)
            op = next(placed)
            op_placed.append(op)
            _, op_offset, op_position, _, _, _, _, _ = op
            if queue is None:
                position = op_position
            decision = queue, offset, position, op_queue, op_offset, op_position, store_ms
            decisions.append(_new_decision(HalfDecision, decision))
        return decisions

    def _template(self, topic: str, queue_id: int) -> _Template:
        target, queue = self._find_target(topic, queue_id)
        return queue, self._held if target.mode != Mode.ASYNC else self._shown

    def _op_tail(self, is_commit: bool, digits: int) -> bytes:
        """Return the bytes of an op message between its body and the offset in its mark.

        `digits` is the length of the offset.
        """
        text = _OP_TEXTS[is_commit]
        length = properties_length(len(text) + _MARK_BYTES + digits)
        tail = self._op_tails[is_commit, digits] = self._op[0].behind_body + length + text + _BEFORE
        return tail
