"""Pulls from a replica that follows: RocketMQ's rules for a slave.

It reads what it has replayed, which its group has confirmed. It corrects no offset: it may lack the newest messages, and the leader knows better.
So 21 becomes 20 with the offset that was asked for. While a leader lives, every answer without a message is 20 and names the leader.

A client that knows no leader's address repeats such a pull at once, here. RocketMQ's slave then answers in a loop; this one waits: as long as
the pull allows while no leader lives, a moment otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.reading.pull import PullStatus, Selection, reply_code
from broker_store.reading.pull_admission import PullRequest
from broker_store.reading.pull_handler import Pulls
from broker_store.reading.suggestions import MASTER_ID
from gantry_wire.codes import ResponseCode
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

REDIRECT_MS = 200
"""How long a pull that allows a hold and finds nothing waits before it is sent to the leader."""
UNITS_MAX = 1024
"""Units of arrivals that are compared with the filters of held pulls. Where more arrived, every filter may be met."""


@dataclass(eq=False)
class FollowerPulls(Pulls):
    """Answers pulls from what a follower has replayed. `offsets` take no commit."""

    has_leader: Callable[[], bool]
    """Whether this replica copies from a leader that lives."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._had_leader = False

    def replayed(self) -> None:
        """Answer the pulls that wait for what was replayed."""
        for key, offset in self._held_pulls.lowest_offsets():
            queue = self._find_queue(*key)
            if queue is None or queue.max_offset <= offset:
                continue
            first = max(offset, queue.min_offset, queue.max_offset - UNITS_MAX)
            units = queue.read(first, UNITS_MAX)
            self.arrived(*key, first, [code for _, _, code in CONSUME_QUEUE_UNIT.iter_unpack(units)])
        self.answer_arrivals()

    def look_for_leader(self) -> None:
        """Answer every held pull once a leader lives: it has what this replica lacks."""
        has_leader = self.has_leader()
        if has_leader and not self._had_leader:
            self.answer_all()
        self._had_leader = has_leader

    def _not_found(self, request: PullRequest, selection: Selection, offset: int, *, may_hold: bool) -> None:
        header = request.header
        code = reply_code(selection.status, header.queue_offset)
        is_beyond = code is ResponseCode.PULL_OFFSET_MOVED
        if is_beyond:
            selection.next_offset = offset
        is_end = is_beyond or code is ResponseCode.PULL_NOT_FOUND
        if is_end and may_hold and selection.next_offset == offset and self._hold(request, offset):
            return
        if offset > header.queue_offset:  # it was held and moved past unwanted messages
            selection.status = PullStatus.NO_MATCHED_MESSAGE
        if is_beyond or self.has_leader() or selection.status is PullStatus.NO_MATCHED_MESSAGE:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        self._answer_nothing(request, code, selection)

    def _suggestion(self, request: PullRequest, position: int) -> int:
        if self.has_leader() and not self._is_far_behind(position):
            return MASTER_ID
        return super()._suggestion(request, position)

    def _hold_ms(self, request: PullRequest) -> int:
        wait_ms = super()._hold_ms(request)
        return min(wait_ms, REDIRECT_MS) if self.has_leader() else wait_ms
