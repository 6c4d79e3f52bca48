"""Sends: messages grouped by queue, one request per queue, results in the order of the messages.

A free message is sent to another broker only if the first certainly did not store it. An unknown result is never
reported as success: it is 504 "unknown whether stored".
"""

import asyncio
from collections.abc import Callable, Sequence

from gantry_wire.codes import ResponseCode
from gantry_wire.limits import BATCH_ITEM_BYTES_MIN, PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages.batch import BatchItem
from gantry_wire.private_requests.leading import NOT_LEADER
from gateway.http.problems import Problem, refused, topic_missing, unanswered, unknown_whether_stored
from gateway.messages.message_view import rfc3339
from gateway.messages.schemas import SendRefusal, SendResult
from gateway.ports.stores import (
    Clocks,
    PeerAway,
    Stored,
    StoreOutcome,
    StoreRefused,
    Stores,
    outcome_of,
)
from gateway.routing.brokers import KnownBrokers
from gateway.routing.queue_lists import ListHistory, Queue
from gateway.routing.route_cache import Route, RouteCache
from gateway.send.drafts import Draft
from gateway.send.leader_waits import LeaderWaits, outlives_leader
from gateway.send.queue_choice import Group, QueueChoice, usual_queue

UTF8_BYTES_MAX = 4
"""UTF-8 needs at most 4 bytes per character."""
ATTEMPTS_MAX = 3
"""Attempts of RocketMQ's producers: one, and two retries."""
AVOID_SECONDS = 1.0
"""How long free messages avoid a broker that did not respond."""

_ELSEWHERE = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Errors before anything is stored, which another broker may not have."""
_DOUBTFUL = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)
"""Errors after which the message may be stored, or may be lost later."""

_FIELDS = {
    "IDEMPOTENCY_CONFLICT": "idempotencyKey",
    "DELAY_TOO_LONG": "deliverAt",
    "DELAY_ILLEGAL": "deliverAt",
}
"""The field at fault, by the store's word for it."""

Result = SendResult | Problem
_NONE_TRIED: set[str] = set()
_FIRST = [0]


class SilentBrokers:
    """Brokers that did not respond recently: free messages avoid them for a while."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self.until: dict[str, float] = {}
        """End of the avoidance, by broker."""

    def add(self, broker: str) -> None:
        """Avoid a broker from now on."""
        self.until[broker] = self._clocks.monotonic() + AVOID_SECONDS

    def around(self, route: Route, queue: Queue, tried: set[str]) -> Queue:
        """Return the queue, or the next one on a broker that is neither tried nor avoided."""
        if not self.until and not tried:
            return queue
        now = self._clocks.monotonic()
        self.until = {broker: until for broker, until in self.until.items() if until > now}
        others = [one for one in route.writable if one[0] not in tried and one[0] not in self.until]
        if not others or queue in others:
            return queue
        return others[route.next_queue % len(others)]


class QueueSend:
    """One request with drafts for one queue; free drafts go to another queue if the first broker certainly did not store them."""

    __slots__ = (
        "_drafts",
        "_group",
        "_on_results",
        "_queue",
        "_route",
        "_sender",
        "_tried",
        "_until",
        "_waits",
    )

    def __init__(
        self,
        sender: "Sender",
        route: Route,
        group: Group,
        drafts: Sequence[Draft],
        on_results: Callable[[list[Result] | Exception], None],
    ) -> None:
        """`on_results` receives a result or a problem for each draft, or another error. It does not raise."""
        self._sender, self._route, self._group, self._drafts = sender, route, group, drafts
        self._on_results = on_results
        self._queue = group.queue
        self._tried: set[str] | None = None
        self._waits = 0
        """Tries since it first waited for a leader, and the end of that wait."""
        self._until = 0.0

    def start(self) -> None:
        """Send the request to the queue, or to one on a broker that responds."""
        if self._group.is_free and self._sender.silent.until:
            self._queue = self._sender.silent.around(self._route, self._queue, _NONE_TRIED)
        self._ask()

    def _ask(self) -> None:
        route, drafts = self._route, self._drafts
        broker, queue_id = self._queue
        store = self._sender.stores.at(broker, route.address(broker))
        if len(drafts) == 1:
            draft = drafts[0]
            store.send(
                route.topic,
                queue_id,
                draft.body,
                draft.properties,
                self._on_outcome,
                sys_flag=draft.sys_flag,
                born_ms=draft.born_ms,
            )
        else:
            items = [BatchItem(0, draft.body, draft.properties.encode()) for draft in drafts]
            store.send_batch(route.topic, queue_id, items, self._on_outcome, born_ms=drafts[0].born_ms)

    def _on_outcome(self, outcome: StoreOutcome) -> None:
        """Pass the results on, or try another broker."""
        results: list[Result] | Exception | None
        queue, drafts = self._queue, self._drafts
        try:
            if not isinstance(outcome, list):
                results = self._after_failure(outcome)
            elif len(drafts) == 1:
                results = [result_of(queue, outcome[0], drafts[0])]
            else:
                results = [result_of(queue, *one) for one in zip(outcome, drafts, strict=True)]
        except Exception as error:  # noqa: BLE001 - whatever it was, a request waits for its answer
            results = error
        if results is not None:
            self._on_results(results)

    def _after_failure(self, outcome: Exception) -> list[Result] | None:
        """Return the problem of every draft; None if another broker is tried. Raises the error of a fault."""
        if not isinstance(outcome, StoreRefused | PeerAway):
            raise outcome
        problem, may_retry = self._problem_of(outcome)
        tried = self._tried = self._tried or set()
        tried.add(self._queue[0])
        other = self._sender.silent.around(self._route, self._queue, tried)
        if self._group.is_free and may_retry and other[0] not in tried and len(tried) < ATTEMPTS_MAX:
            self._queue = other
            self.start()
            return None
        if self._waits_for_leader(outcome, problem):
            return None
        results: list[Result] = [problem]
        return results * len(self._drafts)

    def _waits_for_leader(self, failure: StoreRefused | PeerAway, problem: Problem) -> bool:
        """Wait until another replica leads the broker, and send it the same; False if that is not possible, or took too long."""
        route, broker, waits = self._route, self._queue[0], self._sender.leader_waits
        replicated = self._sender.replicated
        if isinstance(failure, StoreRefused) and failure.gantry_code == NOT_LEADER:
            replicated.add(broker)
        is_replicated = broker in replicated or route.is_replicated(broker)
        if not outlives_leader(failure, self._drafts, is_replicated=is_replicated):
            return False
        if not self._waits:
            self._until = waits.until()
        self._sender.routes.forget(route.topic)

        def then(found: Route | None) -> None:
            if found is None:
                results: list[Result] = [problem]
                self._on_results(results * len(self._drafts))
                return
            self._route = found
            self._restart()

        waits.start(route, broker, self._waits, self._until, then)
        self._waits += 1
        return True

    def _restart(self) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001 - whatever it was, a request waits for its answer
            self._on_results(error)

    def _problem_of(self, failure: StoreRefused | PeerAway) -> tuple[Problem, bool]:
        """Return the problem of a failure, and whether another broker may store the messages."""
        broker, topic = self._queue[0], self._route.topic
        if isinstance(failure, PeerAway):
            self._sender.silent.add(broker)
            self._sender.routes.forget(topic)
            return unanswered(failure, is_write=True), not failure.sent
        problem = _refusal(topic, broker, failure)
        if failure.gantry_code in _FIELDS:
            problem.field = self._drafts[0].field_name(_FIELDS[failure.gantry_code])
        return problem, failure.code in _ELSEWHERE and failure.gantry_code != "STORE_STOPPED"


class Sender:
    """Sends drafts to the stores that hold their queues."""

    def __init__(
        self,
        routes: RouteCache,
        stores: Stores,
        known: KnownBrokers,
        clocks: Clocks,
        leader_waits: LeaderWaits,
        window_ms: int,
    ) -> None:
        self.routes, self.stores, self.silent = routes, stores, SilentBrokers(clocks)
        self.leader_waits = leader_waits
        self.replicated: set[str] = set()
        """Brokers one of whose replicas said that it does not lead: a route names those alone that are registered."""
        self._known, self._clocks, self._window_ms = known, clocks, window_ms

    def start(self, topic: str, draft: Draft, on_results: Callable[[list[Result] | Exception], None]) -> bool:
        """Store a draft, and pass its result to the callback; False, with nothing done, if its route is not cached.

        Raises a problem if the draft cannot be routed.
        """
        placed = self._place(topic, draft)
        if placed is None:
            return False
        route, group = placed
        QueueSend(self, route, group, (draft,), on_results).start()
        return True

    async def send(self, topic: str, drafts: Sequence[Draft]) -> list[Result]:
        """Store the drafts; return one result or problem for each. Raises a problem if they cannot be routed."""
        if len(drafts) == 1 and (placed := self._place(topic, drafts[0])) is not None:
            return await self._send_group(*placed, drafts)
        route = self.routes.fresh(topic) or await self.routes.get(topic)
        are_free = all([draft.is_free for draft in drafts])  # noqa: C419 - a list is twice as fast
        are_together = len(drafts) == 1 or not any([draft.is_alone for draft in drafts])  # noqa: C419
        if are_free and are_together and (queue := route.round_robin()) is not None:
            return await self._send_group(route, Group(queue, is_free=True, places=[]), drafts)
        needs_list = any(draft.item.queue_id is None and draft.hash_key is not None for draft in drafts)
        history = await self.routes.queue_list(topic) if needs_list else None
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

    def _place(self, topic: str, draft: Draft) -> tuple[Route, Group] | None:
        """Return the queue of a draft, or None if route or queue list are not cached. Raises the problem of one without a queue."""
        route = self.routes.fresh(topic)
        if route is None:
            return None
        if draft.is_free:
            queue = route.round_robin()
            return None if queue is None else (route, Group(queue, is_free=True, places=_FIRST))
        history = None
        if draft.item.queue_id is None and draft.hash_key is not None:
            history = self.routes.listed(topic)
            if history is None:
                return None
            queue = usual_queue(route, draft, history)
            if queue is not None:
                return route, Group(queue, is_free=False, places=_FIRST)
        (group,) = self._groups(route, (draft,), history)
        return route, group

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
        """Send the messages of one queue: in one request, or if that is too large in as few as possible, in order.

        An error ends it: parts after a failed part are not sent.
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
            if group.is_free:  # the rest goes to the queue of the first part
                group = Group((last.broker, last.queue_id), is_free=False, places=group.places)
        return results

    async def _send_part(self, route: Route, group: Group, drafts: Sequence[Draft]) -> list[Result]:
        def start(on_results: Callable[[list[Result] | Exception], None]) -> None:
            QueueSend(self, route, group, drafts, on_results).start()

        return await outcome_of(start)


def _parts(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Split drafts into batches that fit a frame; a message too large for a batch is sent alone."""
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
    """Return the client's result of a stored message, or of a refused item of a batch."""
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
