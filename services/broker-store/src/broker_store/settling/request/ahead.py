"""Decisions requested shortly before their time: kept until then, and decided as if they arrived in that turn.

Deliveries are thus as punctual as the store: neither their owner's turn nor the network delays them, and
one request covers items due at many moments. A kept request is not a decision: the first decision still
wins, a lost claim refuses it, and the due time is checked when it is decided.
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from broker_store.clocks.store_clock import StoreClock
from broker_store.requests.request_classes import OVERLOAD
from broker_store.settling.request.item_decisions import Done
from broker_store.settling.request.slices import SettleSlice
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.settling import SETTLE_AHEAD_MS_MAX, SettleItem, SettleResult

ITEMS_MAX = 65_536
"""Most items kept.

A request above that is refused as busy. Owners request items due within a few hundredths of a second.
"""


class Timer(Protocol):
    """Calls back once, at the time set last."""

    def set(self, seconds: float) -> None:
        """Call back in `seconds`, and no longer at the time set before."""

    def close(self) -> None:
        """Cancel the call."""


class Ahead:
    """Kept items, by their time."""

    def __init__(self, clock: StoreClock, timer: Callable[[Callable[[], None]], Timer]) -> None:
        """`timer` creates the timer, when something is kept for the first time."""
        self.waiting = 0
        """Number of kept items."""
        self._clock = clock
        self._make_timer = timer
        self._timer: Timer | None = None
        self._line: list[tuple[int, int, _Kept, list[int]]] = []
        """A heap: time in store ms, a number, the request, and the places of its items."""
        self._number = count()

    def keep(self, items: Sequence[SettleItem], settle: SettleSlice, done: Done) -> bool:
        """Keep a request if some of its items are requested ahead; False when none is.

        Calls `done` once, when all items are decided or some are refused. Raises RefusedRequest when too
        many are kept.
        """
        now_ms = self._clock.now_ms()
        until_ms = now_ms + SETTLE_AHEAD_MS_MAX
        times: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            if now_ms < item.at_ms <= until_ms:
                times.setdefault(item.at_ms, []).append(place)
        if not times:
            return False
        if self.waiting + len(items) > ITEMS_MAX:
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        request = _Kept(items, settle, done, self._clock.now_ms)
        kept = sum(map(len, times.values()))
        if kept < len(items):
            request.release([n for n, item in enumerate(items) if not now_ms < item.at_ms <= until_ms])
        self.waiting += kept
        first_ms = self._line[0][0] if self._line else until_ms + 1
        for at_ms, places in times.items():
            heappush(self._line, (at_ms, next(self._number), request, places))
        if self._line[0][0] < first_ms:
            self._set_timer()
        return True

    def release(self) -> None:
        """Decide everything whose time has come."""
        now_ms, line = self._clock.now_ms(), self._line
        due: dict[_Kept, list[int]] = {}
        while line and line[0][0] <= now_ms:
            _, _, request, places = heappop(line)
            self.waiting -= len(places)
            due.setdefault(request, []).extend(places)
        for request, places in due.items():
            request.release(places)
        if line:
            self._set_timer()

    def close(self) -> None:
        """Drop what is kept. Its clients request it again."""
        self._line.clear()
        self.waiting = 0
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = self._make_timer(self.release)
        self._timer.set(self._clock.seconds_until(self._line[0][0]))


class _Kept:
    """One request, and which items of it are decided."""

    __slots__ = ("_done", "_items", "_left", "_now_ms", "_results", "_settle")

    def __init__(
        self, items: Sequence[SettleItem], settle: SettleSlice, done: Done, now_ms: Callable[[], int]
    ) -> None:
        self._items = items
        self._settle = settle
        self._done: Done | None = done
        self._now_ms = now_ms
        self._left = len(items)
        self._results: dict[int, SettleResult] = {}

    def release(self, places: list[int]) -> None:
        """Decide some items, unless nobody waits for them any more."""
        if self._done is None:
            return
        items = self._items
        try:
            self._settle([items[place] for place in places], partial(self._take, places))
        except RefusedRequest as refusal:
            self._refuse(refusal)
        except Exception as error:  # noqa: BLE001 - answer the waiting client, whatever the error
            remark = f"the items cannot be read: {error}"
            self._refuse(RefusedRequest(ResponseCode.SYSTEM_ERROR, remark))

    def _take(self, places: list[int], results: list[SettleResult] | RefusedRequest) -> None:
        if isinstance(results, RefusedRequest):
            self._refuse(results)
            return
        now_ms = self._now_ms()
        for place, result in zip(places, results, strict=True):
            result.time_ms = now_ms
            self._results[place] = result
        self._left -= len(places)
        if not self._left and self._done is not None:
            done, self._done = self._done, None
            done([result for _, result in sorted(self._results.items())])

    def _refuse(self, refusal: RefusedRequest) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(refusal)
