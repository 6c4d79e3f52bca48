"""A leader whose queues lack lost records serves nothing yet: it would give their offsets and keys to other messages.

Such a replica leads only where no other one did. A fit member that it hears leads in its place. Otherwise it waits while its log is being filled, and the
process ends when that is done (`Refilling`). Where nobody can fill it for ten seconds, it serves what it has: the rest of the group is gone.
"""

from collections.abc import Callable

from broker_store.process.group.refilling import Refilling
from broker_store.replication.as_leader import Leading
from gantry_chassis.logs.structured import get_logger

WAIT_MS = 10_000
"""How long nothing is filled, before the leader serves without the lost records."""

_log = get_logger()


class GapWait:
    """The wait of one life."""

    def __init__(
        self, refilling: Refilling, on_may_serve: Callable[[], None], pass_on: Callable[[str], None]
    ) -> None:
        """`on_may_serve` is called when the leader need not wait any more. `pass_on` lets the named replica lead, and ends the process."""
        self._refilling, self._on_may_serve, self._pass_on = refilling, on_may_serve, pass_on
        self.may_serve: bool = not refilling.has_gaps
        """Whether this replica may serve when it leads."""
        self._left, self._since_ms = -1, 0

    def look(self, leading: Leading | None, now_ms: int) -> bool:
        """Decide what a leader that waits does now. Returns whether another replica leads, and the process ends."""
        if self.may_serve or leading is None:
            return False
        successor = leading.fit_successor(now_ms)
        if successor:
            self._pass_on(successor)
            return True
        left = self._refilling.lost_bytes
        if left != self._left:
            self._left, self._since_ms = left, now_ms
        elif now_ms - self._since_ms >= WAIT_MS:
            _log.error(
                "this leader serves without the records that its log has lost: no other replica has them",
                bytes=left,
            )
            self.may_serve = True
            self._on_may_serve()
        return False
