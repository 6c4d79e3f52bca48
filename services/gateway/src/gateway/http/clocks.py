"""The clocks of the process and the ids made from them. Only this module reads the time."""

import ipaddress
from collections.abc import Callable
from email.utils import formatdate

from gantry_chassis.machine.environment import Environment
from gantry_wire.messages.ids import UniqueIds


class SystemClocks:
    """Wall clock and steady clock of the process."""

    def __init__(self, environment: Environment) -> None:
        self.monotonic = environment.steady
        """Seconds that never go back."""
        self.wall_ms = environment.wall_ms
        """Milliseconds since 1970."""


def unique_ids(listen: str, environment: Environment) -> UniqueIds:
    """Return a generator of message ids that are unique across processes."""
    try:
        address = ipaddress.ip_address(environment.reachable_address(listen)).packed
    except ValueError:
        address = bytes((127, 0, 0, 1))
    return UniqueIds(address, environment.process_id, int.from_bytes(environment.secret_bytes(4)))


class ReplyStamps:
    """Values common to all replies: the date, and a request id if the client sent none."""

    def __init__(self, wall_ns: Callable[[], int], prefix: str) -> None:
        """`wall_ns` is the wall clock in nanoseconds since 1970. `prefix` differs between processes."""
        self._wall_ns, self._prefix = wall_ns, prefix
        self._count = 0
        self._second = 0
        self._date = b""

    def next_id(self) -> str:
        """Return a unique id: the prefix and a number."""
        self._count += 1
        return f"{self._prefix}-{self._count:x}"

    def date(self) -> bytes:
        """Return the value of the Date header; formatted once a second."""
        second = self._wall_ns() // 1_000_000_000
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True).encode()
        return self._date
