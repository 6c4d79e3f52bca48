"""The queue of a message: by `queueId`, else `shardingKey`, else `idempotencyKey`, else the turn of the request.

Pure: route, queue list and drafts in, groups of messages by queue out.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gateway.http.problems import (
    Problem,
    away,
    broker_away,
    broker_missing,
    forbidden,
    invalid,
    unprocessable,
)
from gateway.ports.stores import QueueData
from gateway.routing.brokers import KnownBrokers
from gateway.routing.queue_lists import ListHistory, Queue, QueueList
from gateway.routing.route_cache import PERM_WRITE, Route
from gateway.send.drafts import Draft


class Group(NamedTuple):
    """Messages of one request for one queue; `is_free` ones may go to another queue while unsent."""

    queue: Queue
    is_free: bool
    places: list[int]


def usual_queue(route: Route, draft: Draft, history: ListHistory) -> Queue | None:
    """Return the queue of a draft with a key in the usual case: the list is unchanged, and its broker is present and writable.

    Costs 1 us instead of the 6 of `QueueChoice`, which handles all other cases and raises their problems.
    """
    key = draft.hash_key
    if key is None or draft.item.broker is not None or history.previous is not None:
        return None
    queue = history.current.queue_of(key)
    data = route.brokers.get(queue[0])
    if data is None or queue[1] >= data.write_queues or not data.perm & PERM_WRITE:
        return None
    return queue if queue[0] in route.addresses else None


class QueueChoice:
    """Chooses the queues of the messages of one request."""

    def __init__(self, route: Route, known: KnownBrokers, now: float, *, now_ms: int, window_ms: int) -> None:
        self._route, self._known, self._now = route, known, now
        self._now_ms, self._window_ms = now_ms, window_ms
        self._turns: dict[str, Queue] = {}

    def groups(self, drafts: Sequence[Draft], history: ListHistory | None) -> list[Group]:
        """Return the drafts grouped by queue, in the order of their first message; each that is sent alone is a group of its own.

        Raises the problem of the first draft without a queue: the whole request is refused.
        """
        groups: dict[tuple[Queue, bool, int], Group] = {}
        for place, draft in enumerate(drafts):
            is_free = draft.is_free
            queue = self._turn("") if is_free else self._bound(draft, history)
            which = (queue, is_free, place if draft.is_alone else -1)
            group = groups.get(which)
            if group is None:
                group = groups[which] = Group(queue, is_free, [])
            group.places.append(place)
        return list(groups.values())

    def _bound(self, draft: Draft, history: ListHistory | None) -> Queue:
        if draft.item.queue_id is not None:
            return self._numbered(draft, draft.item.queue_id)
        if draft.hash_key is not None:
            assert history is not None, "keyed drafts are chosen with a cached list"
            return self._hashed(draft, draft.hash_key, history)
        assert draft.item.broker is not None
        self._on_broker(draft, draft.item.broker)
        return self._turn(draft.item.broker)

    def _numbered(self, draft: Draft, queue_id: int) -> Queue:
        holders = sorted(self._route.brokers)
        if draft.item.broker is None and len(holders) > 1:
            detail = f"topic {self._route.topic} lies on {', '.join(holders)}: name the broker of queueId"
            raise unprocessable("INVALID_PARAMETER", draft.field_name("broker"), detail)
        data = self._on_broker(draft, draft.item.broker or holders[0])
        if queue_id >= data.write_queues:
            limit = f"0…{data.write_queues - 1}"
            raise invalid(
                draft.field_name("queueId"), f"broker {data.broker} has the write queues {limit}", limit
            )
        return data.broker, queue_id

    def _hashed(self, draft: Draft, key: str, history: ListHistory) -> Queue:
        in_use: QueueList | None = history.in_use(self._now_ms, self._window_ms)
        current: QueueList | None = history.current
        if draft.item.broker is not None:
            in_use, current = in_use.only(draft.item.broker), current.only(draft.item.broker)
            if in_use is None:
                raise self._not_here(draft, draft.item.broker)
        queue = in_use.queue_of(key)
        data = self._route.share(queue[0])
        if data is not None and queue[1] >= data.write_queues and current is not None:
            queue = current.queue_of(key)  # the queue of the previous list is no longer writable
            data = self._route.share(queue[0])
        if data is None:
            raise broker_away(queue[0])  # never another broker: a retry must find its original
        self._check_writable(data)
        return queue

    def _on_broker(self, draft: Draft, broker: str) -> QueueData:
        data = self._route.share(broker)
        if data is None:
            raise self._not_here(draft, broker)
        self._check_writable(data)
        return data

    def _not_here(self, draft: Draft, broker: str) -> Problem:
        if self._known.is_expected(broker, self._now):
            return broker_away(broker)
        return broker_missing(broker, draft.field_name("broker"))

    def _check_writable(self, data: QueueData) -> None:
        if not data.perm & PERM_WRITE:
            raise forbidden(
                f"topic {self._route.topic} may not be written to on broker {data.broker}", "topic"
            )

    def _turn(self, broker: str) -> Queue:
        """All messages of one request without their own queue go to one queue, the next request to the next."""
        queue = self._turns.get(broker)
        if queue is None:
            queue = self._turns[broker] = self._next_queue(broker)
        return queue

    def _next_queue(self, broker: str) -> Queue:
        for _ in range(len(self._route.writable)):
            queue = self._route.round_robin()
            if queue is not None and broker in {"", queue[0]}:
                return queue
        if any(data.perm & PERM_WRITE for data in self._route.brokers.values()):
            raise away(f"no broker that takes messages of topic {self._route.topic} is there")
        raise forbidden(f"topic {self._route.topic} may not be written to", "topic")
