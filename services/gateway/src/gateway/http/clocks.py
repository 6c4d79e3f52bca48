"""The clocks of the process, and ids made from them: the only place that looks at the time."""

import ipaddress
import os
import secrets
import time
from email.utils import formatdate

from gantry_chassis.addresses import reachable_address
from gantry_wire.ids import UniqueIds


class SystemClocks:
    """Wall clock and monotonic clock."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000


def unique_ids(listen: str) -> UniqueIds:
    """Return a maker of message ids that no other process shares."""
    try:
        address = ipaddress.ip_address(reachable_address(listen)).packed
    except ValueError:
        address = bytes((127, 0, 0, 1))
    return UniqueIds(address, os.getpid(), secrets.randbits(32))


class HttpDate:
    """The Date header of answers, written once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._header = (b"date", b"")

    def header(self) -> tuple[bytes, bytes]:
        """Return the header for now."""
        second = int(time.time())
        if second != self._second:
            self._second, self._header = second, (b"date", formatdate(second, usegmt=True).encode())
        return self._header


class RequestIds:
    """Ids of calls that brought none: a part of the process's own, and a number."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6)
        self._count = 0

    def next(self) -> str:
        """Return a new id."""
        self._count += 1
        return f"{self._prefix}-{self._count:x}"
