"""Extends the leases of push consumers for as long as they live: they receive with auto_renew, and extend nothing themselves.

The schedule is that of RocketMQ's proxy: an extension starts shortly before the end of the lease, each one is longer than the one
before, and three hours after the delivery the message is given back. A client that leaves loses its leases within a second.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Final

from gantry_wire.private_requests.leases import ItemKind
from gateway.http.problems import Problem
from gateway.receive.acking import Acker, Result, Wanted
from gateway.receive.receipts import Receipts
from gateway.receive.receiving import Batch
from gateway.requests.limits import ITEMS_MAX

LEASE_MS: Final = 60_000
"""How long a lease with auto_renew is at first."""
EXTENSIONS_MS: Final = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
"""How long a lease is after each extension; the last one repeats."""
AHEAD_SECONDS: Final = 10.0
"""How long before the end of its lease a message is extended."""
SWEEP_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 3.0
"""Pause before another try of an extension that failed."""
FAILURES_MAX: Final = 3
"""Failed tries in a row after which a lease is left to end."""
HELD_SECONDS_MAX: Final = 3 * 3600.0
"""How long after its delivery a message is given back."""
LEFT_MS: Final = 1000
"""How long the leases of a client that has left still last."""
RENEWED_MAX: Final = 100_000
"""Leases that are extended at once. Those of further messages end after a minute; one takes some 400 bytes."""


class Held:
    """What is left of one delivery: messages of one topic and group that are extended together."""

    __slots__ = ("client_id", "extensions", "failures", "group", "handles", "since", "step", "topic")

    def __init__(self, client_id: str, topic: str, group: str, since: float) -> None:
        self.client_id, self.topic, self.group, self.since = client_id, topic, group, since
        self.handles: dict[str, None] = {}
        self.extensions, self.failures, self.step = 0, 0, 0


Work = tuple[str, str, int]
"""Topic, group, and how long the leases shall be in ms; 0: give the messages back."""
_GIVE_BACK: Final = 0
_GONE: Final = object()


class Renewals:
    """The leases of all push consumers that call this process. One timer for all."""

    def __init__(self, acker: Acker, is_alive: Callable[[str], bool], now: Callable[[], float]) -> None:
        """`is_alive` tells whether a client, by its id, can be expected to be there. `now` counts seconds and never goes back."""
        self._acker, self._is_alive, self._now = acker, is_alive, now
        self._by_client: dict[str, dict[str, Held]] = {}
        self._due: dict[int, dict[Held, None]] = {}
        """By the sweep that extends them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.count = 0
        """Messages whose leases are extended."""

    def hold(self, client_id: str, topic: str, group: str, batch: Batch) -> Held | None:
        """Extend the leases of a batch that is about to leave. None if they are left to end: the client is not known, or there are too many."""
        handles = dict.fromkeys(_handles(topic, group, batch))
        for handle in handles:  # an attempt that is repeated has the same ones
            self.drop(client_id, handle)
        count = len(handles)
        if not self._is_alive(client_id) or self.count + count > RENEWED_MAX:
            return None
        held = Held(client_id, topic, group, self._now())
        held.handles = handles
        self._by_client.setdefault(client_id, {}).update(dict.fromkeys(held.handles, held))
        self.count += count
        self._plan(held, LEASE_MS / 1000 - AHEAD_SECONDS)
        return held

    def drop(self, client_id: str, handle: str) -> bool:
        """Extend a message no longer; return whether it was."""
        of_client = self._by_client.get(client_id)
        held = None if of_client is None else of_client.get(handle)
        if held is None:
            return False
        self._remove(held, (handle,))
        return True

    def drop_all(self, held: Held) -> None:
        """Extend the messages of a batch no longer."""
        self._remove(held, tuple(held.handles))

    def holds(self, client_id: str, handle: str) -> bool:
        """Whether the lease is extended."""
        return handle in self._by_client.get(client_id, ())

    def leave(self, client_id: str) -> None:
        """Let the leases of a client end within a second: it terminated, or nothing was heard of it for too long."""
        handles: dict[tuple[str, str], list[str]] = {}
        for held in dict.fromkeys(self._by_client.get(client_id, {}).values()):
            handles.setdefault((held.topic, held.group), []).extend(held.handles)
            self.drop_all(held)
        for (topic, group), of_group in handles.items():
            for at in range(0, len(of_group), ITEMS_MAX):
                self._begin(self._let_end(topic, group, of_group[at : at + ITEMS_MAX]))

    def close(self) -> None:
        """Extend nothing any more: the process ends, and the leases end in their time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        self._by_client.clear()
        self._due.clear()
        self.count = 0

    # --- time --------------------------------------------------------------------------------------------------

    def _plan(self, held: Held, seconds: float) -> None:
        held.step = int((self._now() + seconds) / SWEEP_SECONDS)
        self._due.setdefault(held.step, {})[held] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        try:
            self.sweep()
        finally:
            if self._due:
                self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def sweep(self) -> None:
        """Extend what is due now."""
        now = self._now()
        work: dict[Work, list[Held]] = {}
        for step in [step for step in self._due if step <= now / SWEEP_SECONDS]:
            for held in self._due.pop(step):
                if not self._is_alive(held.client_id):
                    self.drop_all(
                        held
                    )  # its leases end: it has been silent, though not for so long that it has left
                    continue
                work.setdefault((held.topic, held.group, _next_ms(held, now)), []).append(held)
        for (topic, group, ms), all_held in work.items():
            for part in _together(all_held):
                self._begin(
                    self._give_back(part) if ms == _GIVE_BACK else self._extend(topic, group, part, ms)
                )

    # --- calls -------------------------------------------------------------------------------------------------

    async def _extend(self, topic: str, group: str, all_held: Sequence[Held], ms: int) -> None:
        """Extend leases of one topic and group together; forget those that are over."""
        handles = [handle for held in all_held for handle in held.handles]  # some ended since the sweep
        if not handles:
            return
        try:
            results = await self._acker.extend(
                topic, group, [Wanted(handle, ItemKind.EXTEND) for handle in handles], ms
            )
        except Problem as problem:
            results = [problem] * len(handles)
        by_handle: dict[str, Result] = dict(zip(handles, results, strict=True))
        for held in all_held:
            self._take_results(held, by_handle, ms)

    def _take_results(self, held: Held, results: dict[str, Result], ms: int) -> None:
        over: list[str] = []
        has_failed = False
        for handle in held.handles:
            result = results[handle]
            if isinstance(result, Problem):
                has_failed = True
            elif result.status != "extended":
                over.append(handle)
        self._remove(held, over)
        if not held.handles:
            return  # all have ended
        held.failures = held.failures + 1 if has_failed else 0
        if held.failures >= FAILURES_MAX:
            self.drop_all(held)
        elif has_failed:
            self._plan(held, RETRY_SECONDS)
        else:
            held.extensions += 1
            self._plan(held, ms / 1000 - AHEAD_SECONDS)

    async def _give_back(self, all_held: Sequence[Held]) -> None:
        """Give messages back that were held too long: each once, with the delay of its group."""
        topic, group = all_held[0].topic, all_held[0].group
        wanted = [
            Wanted(handle, ItemKind.NACK, -1, "held for too long")
            for held in all_held
            for handle in held.handles
        ]
        for held in all_held:
            self.drop_all(held)
        try:
            await self._acker.settle(topic, group, wanted)
        except Problem:
            return  # then the leases end

    async def _let_end(self, topic: str, group: str, handles: Sequence[str]) -> None:
        wanted = [Wanted(handle, ItemKind.EXTEND) for handle in handles]
        try:
            await self._acker.extend(topic, group, wanted, LEFT_MS)
        except Problem:
            return  # then they end in their time

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _remove(self, held: Held, handles: Iterable[str]) -> None:
        of_client = self._by_client.get(held.client_id)
        for handle in handles:
            if held.handles.pop(handle, _GONE) is _GONE:
                continue
            self.count -= 1
            if of_client is not None and of_client.get(handle) is held:
                del of_client[handle]
        if of_client is not None and not of_client:
            del self._by_client[held.client_id]
        if not held.handles:
            step = self._due.get(held.step)
            if step is not None and step.pop(held, _GONE) is not _GONE and not step:
                del self._due[held.step]


def _next_ms(held: Held, now: float) -> int:
    """Return how long the leases of a delivery shall be from now on; 0: give the messages back."""
    left_ms = int((held.since + HELD_SECONDS_MAX - now) * 1000)
    if left_ms <= 0:
        return _GIVE_BACK
    wanted_ms = EXTENSIONS_MS[min(held.extensions, len(EXTENSIONS_MS) - 1)]
    return min(wanted_ms, left_ms + int(AHEAD_SECONDS * 1000))


def _together(all_held: Sequence[Held]) -> Iterator[list[Held]]:
    """Yield deliveries by the request that extends them."""
    part: list[Held] = []
    count = 0
    for held in all_held:
        if part and count + len(held.handles) > ITEMS_MAX:
            yield part
            part, count = [], 0
        part.append(held)
        count += len(held.handles)
    if part:
        yield part


def _handles(topic: str, group: str, batch: Batch) -> Iterator[str]:
    make = Receipts(topic, group).make
    for taken in batch.taken:
        broker = taken.broker.encode()
        for place in taken.shown.all_places():
            yield make(broker, *place).decode()
