"""Sends wait for the next leader of a replicated broker, if the last one certainly did not store them or a repetition finds its original."""

import asyncio
from collections.abc import Callable, Sequence

from gantry_wire.codes import ResponseCode
from gantry_wire.private_requests.leading import NOT_LEADER
from gateway.http.problems import Problem
from gateway.ports.stores import PeerAway, StoreRefused, Unusable
from gateway.routing.route_cache import Route, RouteCache
from gateway.send.drafts import Draft

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.01, 0.2
"""Pauses between looks at the route. A hint ends one at once."""


def outlives_leader(
    failure: StoreRefused | PeerAway, drafts: Sequence[Draft], *, is_replicated: bool
) -> bool:
    """Whether the next leader may be sent the same: nothing was stored, or every message has a key, by which the log knows it."""
    if isinstance(failure, StoreRefused):
        is_stopping = (
            failure.code == ResponseCode.SERVICE_NOT_AVAILABLE and failure.gantry_code == "NOT_SERVING"
        )
        return failure.gantry_code == NOT_LEADER or (is_replicated and is_stopping)
    if not is_replicated or isinstance(failure, Unusable):
        return False
    return not failure.sent or all([draft.item.idempotency_key is not None for draft in drafts])  # noqa: C419 - a list is twice as fast


class LeaderWaits:
    """The sends that wait for a leader."""

    def __init__(self, routes: RouteCache, now: Callable[[], float], seconds: float) -> None:
        """`seconds` is how long a send may wait in all."""
        self._routes, self._now, self._seconds = routes, now, seconds
        self._waiting: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many sends wait."""
        return len(self._waiting)

    def until(self) -> float:
        """Return the end of a wait that begins now."""
        return self._now() + self._seconds

    def start(
        self, route: Route, broker: str, tries: int, until: float, then: Callable[[Route | None], None]
    ) -> None:
        """Call `then` with the route when another try makes sense; with None when the time is over. `tries` were made since the wait began."""
        task = asyncio.ensure_future(self._wait(route, broker, tries, until, then))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait(
        self, route: Route, broker: str, tries: int, until: float, then: Callable[[Route | None], None]
    ) -> None:
        topic, failed = route.topic, route.address(broker)
        found = await self._read(topic)
        has_moved = found is not None and found.share(broker) is not None and found.address(broker) != failed
        least = PAUSE_SECONDS_MIN if tries else 0.0  # nameservers may disagree about the leader
        pause = least if has_moved else min(PAUSE_SECONDS_MIN * 2.0 ** min(tries, 8), PAUSE_SECONDS_MAX)
        if self._now() + pause > until:
            then(None)
            return
        if has_moved:
            await asyncio.sleep(pause)
        else:
            await self._routes.wait_for_hint(topic, pause)
            self._routes.forget(topic)
            found = await self._read(topic)
        then(route if found is None or found.share(broker) is None else found)

    async def _read(self, topic: str) -> Route | None:
        try:
            return await self._routes.get(topic)
        except Problem:
            return None
