"""Limits failed authentications per user and address: beyond some, attempts are refused unverified for a growing, bounded time.

Who guesses secrets gets few tries and costs nothing then. The limit of one user at one address touches no other pair. Pure: time is read
from the given clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

FREE_FAILURES = 10
"""Failures of a pair without a pause."""
PAUSE_SECONDS_MIN = 0.2
"""After the first failure beyond them; doubled by each further one."""
PAUSE_SECONDS_MAX = 60.0
FORGET_SECONDS = 900.0
"""After this time without a failure a pair is a new one."""
PAIRS_MAX = 10_000
"""Pairs in memory. Beyond, one that failed long ago is forgotten: one that is not paused, so that nobody ends a pause by other failures."""
LOOKED_AT_MAX = 100
"""Pairs among which one without a pause is looked for."""
NAME_CHARACTERS_MAX = 256
"""Of a longer name, which no user has, only these are remembered."""


@dataclass(slots=True)
class _Pair:
    failures: int
    failed_at: float
    paused_until: float


class FailureLimits:
    """The failures of all users and addresses of a process."""

    def __init__(self, steady: Callable[[], float]) -> None:
        """`steady`: a monotonic clock in seconds."""
        self._steady = steady
        self._pairs: dict[tuple[str, str], _Pair] = {}  # in the order of their last failure

    def __len__(self) -> int:
        return len(self._pairs)

    def is_paused(self, user: str, address: str) -> bool:
        """Whether an attempt must be refused without verifying it. Such an attempt counts nowhere."""
        pair = self._pairs.get(_key(user, address)) if self._pairs else None
        return pair is not None and self._steady() < pair.paused_until

    def failed(self, user: str, address: str) -> None:
        """Count a verified attempt that failed."""
        now = self._steady()
        key = _key(user, address)
        pair = self._pairs.pop(key, None)
        if pair is None or now - pair.failed_at > FORGET_SECONDS:
            pair = _Pair(0, now, now)
        pair.failures += 1
        pair.failed_at = now
        beyond = pair.failures - FREE_FAILURES
        if beyond > 0:
            doublings = min(beyond - 1, 32)
            pair.paused_until = now + min(PAUSE_SECONDS_MIN * 2**doublings, PAUSE_SECONDS_MAX)
        if len(self._pairs) >= PAIRS_MAX:
            del self._pairs[self._least_needed(now)]
        self._pairs[key] = pair

    def _least_needed(self, now: float) -> tuple[str, str]:
        """Return the pair to forget: of those that failed longest ago the first that is not paused."""
        oldest = islice(self._pairs.items(), LOOKED_AT_MAX)
        return next((key for key, pair in oldest if pair.paused_until <= now), next(iter(self._pairs)))

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of a user at an address: it has proven itself."""
        if self._pairs:
            self._pairs.pop(_key(user, address), None)


def _key(user: str, address: str) -> tuple[str, str]:
    return user[:NAME_CHARACTERS_MAX], address
