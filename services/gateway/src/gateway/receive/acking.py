"""Acknowledgements and extensions: handles grouped by broker, one request each, results in the order of the handles."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from gantry_wire.codes import ResponseCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItem, pack_items, pack_places
from gateway.http.problems import Problem, broker_away, refused
from gateway.messages.message_view import rfc3339
from gateway.ports.leases import LeaseStores
from gateway.ports.stores import PeerAway, StoreRefused, outcome_of
from gateway.receive.receipts import Receipts
from gateway.receive.schemas import AckResult
from gateway.routing.route_cache import Route, RouteCache

Result = AckResult | Problem
_new = cast("Callable[[type[LeaseItem], tuple[int, int, int, int, int, int]], LeaseItem]", tuple.__new__)
"""As in `receipts`: one item for each handle."""

ACKED, _NACKED = AckResult("acked"), AckResult("nacked")
_EXPIRED, _INVALID = AckResult("leaseExpired"), AckResult("invalidHandle")
_DONE = {ItemKind.ACK: ACKED, ItemKind.NACK: _NACKED, ItemKind.DEAD: _NACKED}


class Wanted(NamedTuple):
    """The operation on one handle."""

    handle: str
    kind: ItemKind
    delay_ms: int = 0
    reason: str = ""


class Part:
    """The request to one broker."""

    __slots__ = ("items", "places", "reasons")

    def __init__(self, items: list[LeaseItem], places: list[int]) -> None:
        self.items, self.places = items, places
        self.reasons: dict[int, str] = {}


class Acker:
    """Acknowledges and extends on behalf of clients."""

    def __init__(self, routes: RouteCache, stores: LeaseStores) -> None:
        self._routes, self._stores = routes, stores

    def start(
        self,
        topic: str,
        group: str,
        handles: Sequence[str],
        on_results: Callable[[list[Result] | Exception | None], None],
    ) -> bool:
        """Acknowledge messages of one broker; False, with nothing done, if they are of several, or the route is not cached.

        Passes the results in order to the callback, or what failed here; None: every message is acknowledged.
        """
        together, route = _together(topic, group, handles), self._routes.fresh(topic)
        if together is None or route is None or together.broker not in route.addresses:
            return False
        self._acknowledge(route, group, together, len(handles), on_results)
        return True

    async def ack(self, topic: str, group: str, handles: Sequence[str]) -> list[Result]:
        """Acknowledge; return a result for each, in order."""
        together = _together(topic, group, handles)
        if together is None:
            return await self.settle(topic, group, [Wanted(handle, ItemKind.ACK) for handle in handles])
        route = self._routes.fresh(topic) or await self._routes.get(topic)
        if together.broker not in route.addresses:
            return [broker_away(together.broker)] * len(handles)
        found = await outcome_of(self._acknowledge, route, group, together, len(handles))
        return [ACKED] * len(handles) if found is None else found

    def _acknowledge(
        self,
        route: Route,
        group: str,
        together: "Together",
        count: int,
        on_results: Callable[[list[Result] | Exception | None], None],
    ) -> None:
        broker, items = together

        def on_statuses(outcome: bytes | Exception) -> None:
            results: list[Result] | Exception | None
            try:
                if not isinstance(outcome, bytes):
                    results = self._failures(route.topic, broker, outcome, count)
                elif outcome.count(ItemStatus.DONE) == count == len(outcome):
                    results = None
                else:
                    results = [_result(status) for status in outcome]
            except Exception as error:  # noqa: BLE001 - whatever it was, a request waits for its answer
                results = error
            on_results(results)

        store = self._stores.at(broker, route.addresses[broker])
        store.settle(route.topic, group, items, {}, on_statuses)

    async def settle(self, topic: str, group: str, wanted: Sequence[Wanted]) -> list[Result]:
        """Acknowledge and give back; return a result for each, in order."""
        results, parts = _parts(topic, group, wanted)
        if not parts:
            return results
        route = self._routes.fresh(topic) or await self._routes.get(topic)
        if len(parts) == 1:  # the usual case needs no task
            ((broker, part),) = parts.items()
            await self._settle_part(route, group, broker, part, wanted, results)
        else:
            await asyncio.gather(
                *(
                    self._settle_part(route, group, name, part, wanted, results)
                    for name, part in parts.items()
                )
            )
        return results

    async def extend(
        self, topic: str, group: str, wanted: Sequence[Wanted], invisible_ms: int
    ) -> list[Result]:
        """Extend leases; return a result for each, in order."""
        results, parts = _parts(topic, group, wanted)
        if not parts:
            return results
        route = self._routes.fresh(topic) or await self._routes.get(topic)

        async def extend(broker: str, part: Part) -> None:
            try:
                address = _address(route, broker)
                statuses, until_ms = await self._stores.at(broker, address).extend(
                    topic, group, part.items, invisible_ms
                )
            except (StoreRefused, PeerAway, Problem) as error:
                _fail(part, results, self._failure(topic, broker, error))
                return
            extended = AckResult("extended", rfc3339(until_ms))
            for place, status in zip(part.places, statuses, strict=True):
                results[place] = extended if status == ItemStatus.DONE else _other(status)

        await asyncio.gather(*(extend(broker, part) for broker, part in parts.items()))
        return results

    async def _settle_part(
        self,
        route: Route,
        group: str,
        broker: str,
        part: Part,
        wanted: Sequence[Wanted],
        results: list[Result],
    ) -> None:
        topic = route.topic
        try:
            store = self._stores.at(broker, _address(route, broker))
            items = pack_items(part.items)
            statuses = await outcome_of(store.settle, topic, group, items, part.reasons)
        except (StoreRefused, PeerAway, Problem) as error:
            _fail(part, results, self._failure(topic, broker, error))
            return
        if statuses.count(ItemStatus.DONE) == len(results) == len(part.places):
            results[:] = [_DONE[one.kind] for one in wanted]
            return
        for place, status in zip(part.places, statuses, strict=True):
            done = status == ItemStatus.DONE
            results[place] = _DONE[wanted[place].kind] if done else _other(status)

    def _failures(self, topic: str, broker: str, error: Exception, count: int) -> list[Result]:
        """Return the failure of one request as the result of each of its items; raise the error of a fault."""
        if not isinstance(error, StoreRefused | PeerAway):
            raise error
        failure: list[Result] = [self._failure(topic, broker, error)]
        return failure * count

    def _failure(self, topic: str, broker: str, error: StoreRefused | PeerAway | Problem) -> Problem:
        """Return the problem of a failure. Repeating these requests is safe."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, PeerAway):
            self._routes.forget(topic)
            return broker_away(broker)
        if error.code == ResponseCode.SYSTEM_ERROR:
            detail = f"broker {broker} does not know whether it is stored; the same call again tells"
            return Problem(504, "UNKNOWN_WHETHER_STORED", detail, retryable=True, retry_after_ms=200)
        return refused(error)


class Together(NamedTuple):
    """Acknowledgements for one broker, packed."""

    broker: str
    items: bytes


def _together(topic: str, group: str, handles: Sequence[str]) -> Together | None:
    """Return the request if all handles are of one broker; None if they have to be decoded one by one."""
    read = Receipts(topic, group).read_all(handles)
    if read is None:
        return None
    return Together(read.broker.decode(errors="replace"), pack_places(ItemKind.ACK, read.places))


def _parts(topic: str, group: str, wanted: Sequence[Wanted]) -> tuple[list[Result], dict[str, Part]]:
    """Decode all handles; return results (`invalidHandle` for invalid ones) and the request of each broker."""
    receipts = Receipts(topic, group)
    results: list[Result] = [_INVALID] * len(wanted)
    by_broker: dict[bytes, Part] = {}
    read = receipts.read
    for place, (handle, kind, delay_ms, reason) in enumerate(wanted):
        receipt = read(handle)
        if receipt is None:
            continue
        broker, is_retry, queue_id, offset, lease = receipt
        part = by_broker.get(broker)
        if part is None:
            part = by_broker[broker] = Part([], [])
        if reason:
            part.reasons[len(part.items)] = reason
        part.items.append(_new(LeaseItem, (kind, is_retry, queue_id, offset, lease, delay_ms)))
        part.places.append(place)
    return results, {broker.decode(errors="replace"): part for broker, part in by_broker.items()}


def _address(route: Route, broker: str) -> str:
    """Return a broker's address; 503 if it is not in the route: the handle shows that it was."""
    address = route.addresses.get(broker)
    if address is None:
        raise broker_away(broker)
    return address


def _fail(part: Part, results: list[Result], problem: Problem) -> None:
    for place in part.places:
        results[place] = problem


def _result(status: int) -> Result:
    return ACKED if status == ItemStatus.DONE else _other(status)


def _other(status: int) -> Result:
    if status == ItemStatus.EXPIRED:
        return _EXPIRED
    if status == ItemStatus.INVALID:
        return _INVALID
    detail = "the message could not be put aside now; it stays with you: give it back again"
    return Problem(503, "SERVICE_NOT_AVAILABLE", detail, retryable=True, retry_after_ms=200)
