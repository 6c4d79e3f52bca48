"""Large settle requests in slices, so that very many items due at once do not block the store's other work.

In one turn of the loop at most one slice of items is decided for owners of claims, first come, first
served. The rest waits for the next turn, after everything else that has arrived. A slice has ITEMS_MIN
items, or as many as take half of the time since the last one ended, up to ITEMS_MAX. So other work gets
more of the loop than settling, and settling continues however busy the store is.
"""

from collections import deque
from collections.abc import Callable, Sequence

from broker_store.commit.appends import AtTurnEnd
from broker_store.requests.request_classes import OVERLOAD
from broker_store.settling.request.item_decisions import Done
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.settling import SettleItem, SettleResult

ITEMS_MIN = 32
"""About a millisecond of work, which a turn can take unnoticed."""
ITEMS_MAX = 128
REQUESTS_MAX = 1024
"""Most waiting requests. One more is refused as busy. Owners have a few in flight."""
ITEM_SECONDS = 25e-6
"""Time per item, by bench/hot_paths/hot_settle.py. Its accuracy affects only the share of the loop."""

SettleSlice = Callable[[Sequence[SettleItem], Done], None]
"""Decides items in this turn; see Settling.settle. Raises RefusedRequest."""


class Slices:
    """The waiting requests, in order."""

    def __init__(self, at_turn_end: AtTurnEnd, seconds: Callable[[], float]) -> None:
        self.items_min = ITEMS_MIN
        self._at_turn_end = at_turn_end
        self._seconds = seconds
        self._line: deque[_Request] = deque()
        self._in_turn = False
        """Whether this turn's slice has begun and its end will be reported."""
        self._room = 0
        """Items that this turn still accepts."""
        self._ended_s = 0.0
        self._next = self._next_turn

    @property
    def waiting(self) -> int:
        """Number of requests with waiting items."""
        return len(self._line)

    def add(self, items: Sequence[SettleItem], settle: SettleSlice, done: Done) -> None:
        """Add a request. Calls `done` once, when all of it is decided or as soon as a part is refused.

        What was decided before a refusal stays decided, and is answered `already` when it is requested
        again. Raises RefusedRequest when the first part is refused at once, or too many requests wait.
        """
        if len(self._line) >= REQUESTS_MAX:
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        count = len(items)
        if not self._line and self._has_room() and count <= self._room:
            self._room -= max(count, 1)
            settle(items, done)  # few items are due: the request is decided at once
            self._ended_s = self._seconds()
            return
        request = _Request(items, settle, done)
        if self._line or not self._has_room() or not self._cut(request):
            self._line.append(request)

    def _next_turn(self) -> None:
        self._in_turn = False
        while self._line and self._has_room():
            request = self._line[0]
            try:
                is_all = self._cut(request)
            except RefusedRequest as refusal:
                is_all = True
                request.refuse(refusal)
            except Exception as error:  # noqa: BLE001 - answer the waiting client, whatever the error
                is_all = True
                remark = f"the items cannot be read: {error}"
                request.refuse(RefusedRequest(ResponseCode.SYSTEM_ERROR, remark))
            if is_all:
                self._line.popleft()

    def _has_room(self) -> bool:
        if not self._in_turn:
            self._in_turn = True
            self._at_turn_end(self._next)
            passed_s = self._seconds() - self._ended_s
            self._room = max(self.items_min, min(ITEMS_MAX, int(passed_s / 2 / ITEM_SECONDS)))
        return self._room > 0

    def _cut(self, request: "_Request") -> bool:
        """Decide the next items of a request. Returns whether those were the last."""
        before = request.at
        try:
            return request.advance(self._room)
        finally:
            self._room -= max(request.at - before, 1)
            self._ended_s = self._seconds()


class _Request:
    """A request and its progress."""

    __slots__ = ("_done", "_early", "_items", "_results", "_settle", "at")

    def __init__(self, items: Sequence[SettleItem], settle: SettleSlice, done: Done) -> None:
        self.at = 0
        """Items before this one were submitted."""
        self._items = items
        self._settle = settle
        self._done: Done | None = done
        self._results: list[SettleResult] = []
        self._early: dict[int, list[SettleResult]] = {}
        """Results by first item, of slices that were decided before an earlier one whose records were read from the disk."""

    def advance(self, count: int) -> bool:
        """Submit the next items. Returns whether none are left, or nobody waits for them any more."""
        if self._done is None:
            return True
        first, items = self.at, self._items
        self.at = end = min(first + count, len(items))

        def answered(results: list[SettleResult] | RefusedRequest) -> None:
            if isinstance(results, RefusedRequest):
                self.refuse(results)
            else:
                self._take(first, results)

        self._settle(items if end - first == len(items) else items[first:end], answered)
        return end == len(items)

    def refuse(self, refusal: RefusedRequest) -> None:
        """Answer that not everything was done."""
        done, self._done = self._done, None
        if done is not None:
            done(refusal)

    def _take(self, first: int, results: list[SettleResult]) -> None:
        self._early[first] = results
        while len(self._results) in self._early:
            self._results += self._early.pop(len(self._results))
        if len(self._results) == len(self._items) and self._done is not None:
            done, self._done = self._done, None
            done(self._results)
