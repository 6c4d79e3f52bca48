"""Request classes: how much of each kind of work may wait, and when it is refused instead (RocketMQ 5.3.3's limits).

Handlers that answer within their turn of the loop wait for nobody and need no counting. What is answered later
(sends in the group commit, cold reads, held pulls) enters its class and leaves it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


class ClassLimits(NamedTuple):
    """Most requests of a class under way, and RocketMQ's wait after which its head is refused.

    Only sends wait before they begin, so only theirs is enforced: all others begin in the turn that reads them.
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
}


ONEWAY_PER_TURN_MAX = 4096
"""One-way requests of a class carried out in one turn of the loop; more are dropped: nobody waits for them, others wait for the turn."""


class RequestClass:
    """Counts one kind of request: under way, refused, and how long its head has waited."""

    __slots__ = (
        "_entered_ms",
        "capacity",
        "handled",
        "head_wait",
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
        self.head_wait: Callable[[], int] | None = None
        """Tells the head's wait in ms where its owner knows it without having each request's time noted."""
        self._entered_ms: deque[int] = deque()

    def enter(self, now_ms: int = 0) -> None:
        """Take a place. Raises SYSTEM_BUSY [OVERLOAD] when none is left."""
        if self.in_flight >= self.capacity:
            self.refused_full += 1
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self.in_flight += 1
        if now_ms:
            self._entered_ms.append(now_ms)

    def leave(self) -> None:
        """Give the place back. Places are given back in the order they were taken, near enough for a figure."""
        assert self.in_flight > 0, self.name
        self.in_flight -= 1
        self.handled += 1
        if self._entered_ms:
            self._entered_ms.popleft()

    def end_turn(self) -> None:
        """Begin to count one-way requests anew."""
        self.oneway_in_turn = 0

    def head_wait_ms(self, now_ms: int) -> int:
        """How long the oldest request under way has waited; 0 when none does."""
        if self.head_wait is not None:
            return self.head_wait()
        return max(0, now_ms - self._entered_ms[0]) if self._entered_ms else 0


OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"


def waited_too_long(waited_ms: int, size: int) -> str:
    """Words of the 200 ms fast failure, as RocketMQ's BrokerFastFailure says them."""
    return (
        f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {waited_ms}ms, "
        f"size of queue: {size}"
    )


def request_classes() -> dict[str, RequestClass]:
    """One fresh counter per class."""
    return {name: RequestClass(name, limits) for name, limits in LIMITS.items()}
