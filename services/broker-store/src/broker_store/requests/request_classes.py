"""Request classes: how much work of each kind may wait, and when it is refused (RocketMQ 5.3.3's limits).

Handlers that answer within their turn need no counting. Deferred work (sends in the group commit, cold
reads, held pulls) enters its class and leaves it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


class ClassLimits(NamedTuple):
    """Most requests of a class in flight, and RocketMQ's wait after which the oldest is refused.

    Only sends wait before they begin, so only their wait is enforced. All others begin in the turn that
    reads them.
    """

    capacity: int
    wait_ms_max: int


LIMITS: dict[str, ClassLimits] = {
    "send": ClassLimits(10_000, 200),
    "put": ClassLimits(10_000, 200),
    "ack": ClassLimits(100_000, 3_000),
    "pull": ClassLimits(100_000, 5_000),
    "litePull": ClassLimits(100_000, 5_000),
    "reply": ClassLimits(10_000, 200),
    "query": ClassLimits(20_000, 5_000),
    "clientManager": ClassLimits(1_000_000, 5_000),
    "heartbeat": ClassLimits(50_000, 31_000),
    "consumerManager": ClassLimits(1_000_000, 5_000),
    "endTransaction": ClassLimits(100_000, 3_000),
    "adminBroker": ClassLimits(10_000, 5_000),
    "loadBalance": ClassLimits(100_000, 5_000),
    "replication": ClassLimits(100_000, 5_000),
}


ONEWAY_PER_TURN_MAX = 4096
"""Most one-way requests of a class per turn.

More are dropped: nobody waits for them, and other requests need the turn.
"""


class RequestClass:
    """Counts one kind of request: in flight, refused, and the wait of the oldest."""

    __slots__ = (
        "_entered_ms",
        "_read_wait_ms",
        "capacity",
        "handled",
        "in_flight",
        "name",
        "oneway_dropped",
        "oneway_in_turn",
        "refused_full",
        "refused_late",
        "wait_ms_max",
    )

    def __init__(self, name: str, limits: ClassLimits) -> None:
        self.name = name
        self.capacity = limits.capacity
        self.wait_ms_max = limits.wait_ms_max
        self.in_flight = 0
        self.handled = 0
        self.refused_full = 0
        self.refused_late = 0
        self.oneway_in_turn = 0
        self.oneway_dropped = 0
        self._read_wait_ms: Callable[[], int] | None = None
        self._entered_ms: deque[int] = deque()

    def set_capacity(self, capacity: int) -> None:
        """Refuse requests while this many are in flight."""
        self.capacity = capacity

    def set_wait_ms_max(self, wait_ms_max: int) -> None:
        """Refuse requests that wait longer than this, where they wait before they begin."""
        self.wait_ms_max = wait_ms_max

    def measure_wait(self, read_wait_ms: Callable[[], int]) -> None:
        """Ask the owner of the requests how long the oldest has waited: it knows that without a time per request."""
        self._read_wait_ms = read_wait_ms

    def enter(self, now_ms: int = 0) -> None:
        """Take a place. Raises SYSTEM_BUSY [OVERLOAD] when the class is full."""
        if self.in_flight >= self.capacity:
            self.refused_full += 1
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self.in_flight += 1
        if now_ms:
            self._entered_ms.append(now_ms)

    def leave(self) -> None:
        """Return a place. Places are returned roughly in the order taken, which is exact enough for a metric."""
        assert self.in_flight > 0, self.name
        self.in_flight -= 1
        self.handled += 1
        if self._entered_ms:
            self._entered_ms.popleft()

    def end_turn(self) -> None:
        """Reset the count of one-way requests."""
        self.oneway_in_turn = 0

    def head_wait_ms(self, now_ms: int) -> int:
        """Return how long the oldest request in flight has waited, 0 when there is none."""
        if self._read_wait_ms is not None:
            return self._read_wait_ms()
        return max(0, now_ms - self._entered_ms[0]) if self._entered_ms else 0


OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"


def waited_too_long(waited_ms: int, size: int) -> str:
    """Return the remark of the 200 ms fast failure, as RocketMQ's BrokerFastFailure words it."""
    return (
        f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {waited_ms}ms, "
        f"size of queue: {size}"
    )


def request_classes() -> dict[str, RequestClass]:
    """Return one new counter per class."""
    return {name: RequestClass(name, limits) for name, limits in LIMITS.items()}
