"""Sends: messages grouped by queue, one request per queue, results in the order of the messages.

A free message goes to another broker only where the first surely did not store it. A doubtful result is never
called success: it is 504 "unknown whether stored".
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from gantry_wire.batch import BatchItem
from gantry_wire.codes import ResponseCode
from gantry_wire.limits import BATCH_ITEM_BYTES_MIN, PER_ITEM_BATCH_BYTES_MAX
from gateway.http.problems import Problem, refused, topic_missing, unanswered, unknown_whether_stored
from gateway.messages.message_view import rfc3339
from gateway.messages.schemas import SendRefusal, SendResult
from gateway.ports.stores import Clocks, PeerAway, Store, Stored, StoreRefused, Stores
from gateway.routing.brokers import KnownBrokers
from gateway.routing.queue_lists import ListHistory, Queue
from gateway.routing.route_cache import Route, RouteCache
from gateway.send.drafts import Draft
from gateway.send.queue_choice import Group, QueueChoice, usual_queue

UTF8_BYTES_MAX = 4
"""No character takes more bytes."""
ATTEMPTS_MAX = 3
"""RocketMQ's producers try so often: once, and two retries."""
AVOID_SECONDS = 1.0
"""How long free messages go round a broker that did not answer."""

_ELSEWHERE = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Refusals that are made before anything is stored, and that another broker may not share."""
_DOUBTFUL = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
"""Answers after which the message may be there, or may be lost again."""

_FIELDS = {
    "IDEMPOTENCY_CONFLICT": "idempotencyKey",
    "DELAY_TOO_LONG": "deliverAt",
    "DELAY_ILLEGAL": "deliverAt",
}
"""What a store refuses a message for, by its word for it."""

Result = SendResult | Problem


class Placed(NamedTuple):
    """Where a message goes that need not wait for anything."""

    route: Route
    group: Group
    store: Store


class Sender:
    """Sends drafts to the stores that hold their queues."""

    def __init__(
        self, routes: RouteCache, stores: Stores, known: KnownBrokers, clocks: Clocks, window_ms: int
    ) -> None:
        self._routes, self._stores, self._known, self._clocks = routes, stores, known, clocks
        self._window_ms = window_ms
        self._avoid_until: dict[str, float] = {}

    async def send(self, topic: str, drafts: Sequence[Draft]) -> list[Result]:
        """Store the drafts; return one result or problem for each. Raises a problem when none could be routed."""
        route = self._routes.fresh(topic) or await self._routes.get(topic)
        are_free = all([draft.is_free for draft in drafts])  # noqa: C419 - a list is twice as fast
        are_together = len(drafts) == 1 or not any([draft.is_delayed for draft in drafts])  # noqa: C419
        if are_free and are_together and (queue := route.round_robin()) is not None:
            return await self._send_group(route, Group(queue, is_free=True, places=[]), drafts)
        needs_list = any(draft.item.queue_id is None and draft.hash_key is not None for draft in drafts)
        history = await self._routes.queue_list(topic) if needs_list else None
        groups = self._groups(route, drafts, history)
        if len(groups) == 1:
            return await self._send_group(route, groups[0], drafts)
        results: dict[int, Result] = {}
        answers = await asyncio.gather(
            *(self._send_group(route, group, [drafts[place] for place in group.places]) for group in groups)
        )
        for group, answer in zip(groups, answers, strict=True):
            results.update(zip(group.places, answer, strict=True))
        return [results[place] for place in range(len(drafts))]

    def place(self, topic: str, draft: Draft) -> Placed | None:
        """Return where a message goes; None where that is to be waited for. Raises the problem of one that has no queue."""
        route = self._routes.fresh(topic)
        if route is None or draft.is_delayed or (draft.is_free and self._avoid_until and self._avoids_any()):
            return None
        if draft.is_free:
            queue = route.round_robin()
            if queue is None:
                return None
            group = Group(queue, is_free=True, places=[])
        else:
            needs_list = draft.item.queue_id is None and draft.hash_key is not None
            history = self._routes.listed(topic) if needs_list else None
            if needs_list and history is None:
                return None
            queue = usual_queue(route, draft, history) if history is not None else None
            if queue is None:
                (group,) = self._groups(route, (draft,), history)
            else:
                group = Group(queue, is_free=False, places=[0])
        return Placed(route, group, self._at(route, group.queue[0]))

    async def go_on(self, placed: Placed, draft: Draft, outcome: Stored | Exception) -> list[Result]:
        """Take what the store said about the message that was placed, and go on from there as `send` would."""
        return await self._send_part(placed.route, placed.group, [draft], outcome)

    def _groups(self, route: Route, drafts: Sequence[Draft], history: ListHistory | None) -> list[Group]:
        choice = QueueChoice(
            route,
            self._known,
            self._clocks.monotonic(),
            now_ms=self._clocks.wall_ms(),
            window_ms=self._window_ms,
        )
        return choice.groups(drafts, history)

    async def _send_group(self, route: Route, group: Group, drafts: Sequence[Draft]) -> list[Result]:
        """Send what goes to one queue: in one request, or where that is too large in as few as hold it, in order.

        A refusal ends it: what comes after a part that was not stored is not sent.
        """
        size_max = sum([len(draft.body) + UTF8_BYTES_MAX * len(draft.properties) for draft in drafts])
        if size_max + BATCH_ITEM_BYTES_MIN * len(drafts) <= PER_ITEM_BATCH_BYTES_MAX:
            return await self._send_part(route, group, drafts)
        results: list[Result] = []
        for part in _parts(drafts):
            results += await self._send_part(route, group, part)
            last = results[-1]
            if isinstance(last, Problem):
                return results + [last] * (len(drafts) - len(results))
            if group.is_free:  # the rest follows to where the first part went
                group = Group((last.broker, last.queue_id), is_free=False, places=group.places)
        return results

    async def _send_part(
        self,
        route: Route,
        group: Group,
        drafts: Sequence[Draft],
        outcome: Stored | Exception | None = None,
    ) -> list[Result]:
        """Send one request; a free group looks for another queue while it is surely not stored.

        `outcome` is what came of the first request, where it was made already.
        """
        queue = group.queue
        if group.is_free and self._avoid_until and outcome is None and self._avoids_any():
            queue = self._around(route, queue, set())
        tried: set[str] = set()
        while True:
            broker = queue[0]
            try:
                first, outcome = outcome, None
                if isinstance(first, Exception):
                    raise first
                stored = (
                    await self._store(self._at(route, broker), route.topic, queue[1], drafts)
                    if first is None
                    else [first]
                )
                return [result_of(queue, one, draft) for one, draft in zip(stored, drafts, strict=True)]
            except StoreRefused as error:
                problem = _refusal(route.topic, broker, error)
                if error.gantry_code in _FIELDS:
                    problem.field = drafts[0].field_name(_FIELDS[error.gantry_code])
                may_go_on = error.code in _ELSEWHERE and error.gantry_code != "STORE_STOPPED"
            except PeerAway as error:
                problem = unanswered(error, is_write=True)
                may_go_on = not error.sent
                self._avoid_until[broker] = self._clocks.monotonic() + AVOID_SECONDS
                self._routes.forget(route.topic)
            tried.add(broker)
            other = self._around(route, queue, tried)
            if not (group.is_free and may_go_on and other[0] not in tried and len(tried) < ATTEMPTS_MAX):
                return [problem] * len(drafts)
            queue = other

    async def _store(self, store: Store, topic: str, queue_id: int, drafts: Sequence[Draft]) -> list[Stored]:
        if len(drafts) == 1:
            return [await store.send(topic, queue_id, drafts[0].body, drafts[0].properties)]
        items = [BatchItem(0, draft.body, draft.properties.encode()) for draft in drafts]
        return await store.send_batch(topic, queue_id, items)

    def _at(self, route: Route, broker: str) -> Store:
        return self._stores.at(broker, route.address(broker))

    def _avoids_any(self) -> bool:
        """Whether some broker is known not to answer just now; forget those whose time is over."""
        now = self._clocks.monotonic()
        self._avoid_until = {broker: until for broker, until in self._avoid_until.items() if until > now}
        return bool(self._avoid_until)

    def _around(self, route: Route, queue: Queue, tried: set[str]) -> Queue:
        """Return the queue, or the next one on a broker that is neither tried nor known not to answer just now."""
        self._avoids_any()
        others = [q for q in route.writable if q[0] not in tried and q[0] not in self._avoid_until]
        if not others or queue in others:
            return queue
        return others[route.next_queue % len(others)]


def _parts(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Divide drafts into batches that the wire takes; a message too large for a batch goes alone."""
    parts: list[list[Draft]] = []
    left = 0
    for draft in drafts:
        size = BATCH_ITEM_BYTES_MIN + len(draft.body) + len(draft.properties.encode())
        if size > left:
            parts.append([])
            left = PER_ITEM_BATCH_BYTES_MAX
        parts[-1].append(draft)
        left -= size
    return parts


def _refusal(topic: str, broker: str, error: StoreRefused) -> Problem:
    if error.code in _DOUBTFUL:
        return unknown_whether_stored(broker)
    if error.code == ResponseCode.TOPIC_NOT_EXIST:
        return topic_missing(topic)
    return refused(error)


def result_of(queue: Queue, stored: Stored, draft: Draft) -> Result:
    """Return what the client is told of a stored message, or of a refused item of a batch."""
    if stored.code != 0:
        conflict = "the idempotency key is known with another content" if stored.gantry_code else ""
        problem = refused(StoreRefused(stored.code, conflict, stored.gantry_code))
        problem.field = draft.field_name("idempotencyKey") if stored.gantry_code else ""
        return problem
    return SendResult(
        "SEND_OK",
        stored.message_id or draft.message_id,
        stored.offset_message_id,
        queue[0],
        stored.queue_id if stored.deliver_ms is None else queue[1],
        stored.queue_offset if stored.deliver_ms is None else None,
        "fsync" if stored.is_durable else "written",
        stored.is_duplicate,
        None if stored.deliver_ms is None else rfc3339(stored.deliver_ms),
    )


def refusal_of(problem: Problem) -> SendRefusal:
    """Return the problem of one message among several as its entry in `results`."""
    return SendRefusal(problem.code, problem.detail, problem.retryable, problem.retry_after_ms, problem.field)
