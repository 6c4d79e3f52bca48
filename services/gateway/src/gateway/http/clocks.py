"""The clocks of the process, and ids made from them: the only place that looks at the time."""

import ipaddress
from collections.abc import Callable
from email.utils import formatdate

from gantry_chassis.addresses import reachable_address
from gantry_chassis.environment import Environment
from gantry_wire.ids import UniqueIds


class SystemClocks:
    """Wall clock and steady clock of the process."""

    def __init__(self, environment: Environment) -> None:
        self.monotonic = environment.steady
        """Seconds that never go back."""
        self.wall_ms = environment.wall_ms
        """Milliseconds since 1970."""


def unique_ids(listen: str, environment: Environment) -> UniqueIds:
    """Return a maker of message ids that no other process shares."""
    try:
        address = ipaddress.ip_address(reachable_address(listen)).packed
    except ValueError:
        address = bytes((127, 0, 0, 1))
    return UniqueIds(address, environment.process_id, int.from_bytes(environment.secret_bytes(4)))


class HttpDate:
    """The Date header of answers, written once a second."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._second = 0
        self._header = (b"date", b"")

    def header(self) -> tuple[bytes, bytes]:
        """Return the header for now."""
        second = self._wall_ms() // 1000
        if second != self._second:
            self._second, self._header = second, (b"date", formatdate(second, usegmt=True).encode())
        return self._header


class RequestIds:
    """Ids of calls that brought none: a part of the process's own, and a number."""

    def __init__(self, secret_bytes: Callable[[int], bytes]) -> None:
        self._prefix = secret_bytes(6).hex()
        self._count = 0

    def next(self) -> str:
        """Return a new id."""
        self._count += 1
        return f"{self._prefix}-{self._count:x}"
