"""The running hash of everything that happened. Equal hashes mean equal runs."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

DIGEST_BYTES = 16


class Trace:
    """Hashes each event and keeps the last ones as text.

    An event's detail must not depend on an address in memory, on the order of a set or on the machine's clock.
    """

    def __init__(self, kept: int) -> None:
        """`kept` is the number of latest events that `lines` returns."""
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._kept: deque[str] = deque(maxlen=kept)
        self.count: int = 0

    def add(self, now_ns: int, process: str, kind: str, detail: object) -> None:
        """Add one event at this virtual time in nanoseconds."""
        line = f"{now_ns} {process} {kind} {detail}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._kept.append(line)
        self.count += 1

    def digest(self) -> str:
        """Return the hash of all events so far, in hex."""
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """Return the latest events, oldest first: nanoseconds, process, kind, detail."""
        return list(self._kept)
