"""The running hash of everything that happened. Equal hashes mean equal runs."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

DIGEST_BYTES = 16
PENDING_MAX = 256
"""Lines that are hashed together: a call of the hash costs as much as a short line."""


class Trace:
    """Hashes each event and keeps the last ones as text.

    An event's detail must not depend on an address in memory, on the order of a set or on the machine's clock.
    """

    def __init__(self, kept: int) -> None:
        """`kept` is the number of latest events that `lines` returns."""
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._kept_count = kept
        self._kept: deque[list[str]] = deque(maxlen=-(-kept // PENDING_MAX))
        """The latest hashed lines, PENDING_MAX together."""
        self._pending: list[str] = []
        self._unhashed_from: int = 0
        """The first of the pending lines that `digest` has not hashed."""

    def add(self, now_ns: int, process: str, kind: str, detail: object) -> None:
        """Add one event at this virtual time in nanoseconds."""
        pending = self._pending
        pending.append(f"{now_ns} {process} {kind} {detail}\n")
        if len(pending) == PENDING_MAX:
            self._hash_pending()
            self._kept.append(pending)
            self._pending = []
            self._unhashed_from = 0

    def digest(self) -> str:
        """Return the hash of all events so far, in hex."""
        self._hash_pending()
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """Return the latest events, oldest first: nanoseconds, process, kind, detail."""
        lines = [line for lines in self._kept for line in lines] + self._pending
        return [line.removesuffix("\n") for line in lines[max(0, len(lines) - self._kept_count) :]]

    def _hash_pending(self) -> None:
        self._hash.update("".join(self._pending[self._unhashed_from :]).encode())
        self._unhashed_from = len(self._pending)
