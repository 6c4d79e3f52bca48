"""Receives with an id of their own, so that a client that lost an answer gets the same messages again. In memory: a restart ends all leases. Pure."""

from typing import NamedTuple

from broker_store.leases.lease_table.runs import Kind, Run
from broker_store.leases.subscriptions import QueueLeases, Subscription

ATTEMPTS_MAX = 10_000
"""Receives that can be repeated. The oldest is forgotten first: its repeat is a new receive."""
ATTEMPT_ID_CHARS_MAX = 255

AttemptKey = tuple[str, str, str]
"""Group, topic and id of the attempt."""


class Taken(NamedTuple):
    """Messages of one queue that a receive leased."""

    subscription: Subscription
    leases: QueueLeases
    first: int
    mask: int


class Attempt(NamedTuple):
    """What a receive leased, and until when (steady ms)."""

    lease: int
    until_ms: int
    taken: list[Taken]


class Held(NamedTuple):
    """A leased message run of an attempt: it is delivered again."""

    taken: Taken
    run: Run


class Attempts:
    """The receives that can be repeated, oldest first."""

    def __init__(self) -> None:
        self._known: dict[AttemptKey, Attempt] = {}

    def keep(self, key: AttemptKey, attempt: Attempt, now_ms: int) -> None:
        """Remember a receive, and forget the oldest ones that are over or too many."""
        known = self._known
        known.pop(key, None)
        known[key] = attempt
        while len(known) > ATTEMPTS_MAX or next(iter(known.values())).until_ms <= now_ms:
            del known[next(iter(known))]
            if not known:
                return

    def find(self, key: AttemptKey, now_ms: int) -> tuple[int, list[Held]] | None:
        """Return the lease of an earlier receive and what it still holds. None if it holds nothing: then it is forgotten."""
        attempt = self._known.get(key)
        if attempt is None:
            return None
        held = [one for taken in attempt.taken for one in _held(taken, attempt.lease, now_ms)]
        if not held:
            del self._known[key]
            return None
        return attempt.lease, held


def _held(taken: Taken, lease: int, now_ms: int) -> list[Held]:
    """Return the messages that are still on this lease. Not those that are being settled."""
    held: list[Held] = []
    end = taken.first + taken.mask.bit_length()
    for run in taken.leases.table.runs.between(taken.first, end):
        if run.lease != lease or run.kind is not Kind.LEASED or run.time_ms <= now_ms:
            continue
        move = run.first - taken.first
        wanted = run.mask & ~run.pending & (taken.mask >> move if move >= 0 else taken.mask << -move)
        if wanted:
            skip = (wanted & -wanted).bit_length() - 1
            held.append(
                Held(taken, Run(run.first + skip, wanted >> skip, run.kind, run.attempt, lease, run.time_ms))
            )
    return held
