"""Keeps the waits of clients (9034, and those of POP), and answers them once a receive may find messages."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import count

from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import TopicTable
from broker_store.leases.subscription_opening import Opener
from broker_store.leases.subscriptions import Subscription, Subscriptions
from broker_store.leases.waiting_receivers import Waiter, Waiters
from broker_store.ports import Peer
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import RETRY_PREFIX, retry_topic
from gantry_wire.private_requests.leases import WAIT_MS_MAX, WaitHeader, WaitReplyHeader

WOKEN_AT_ONCE = 8
"""Waiting receivers woken when messages become due. The others follow with the next offer."""


class Held(Enum):
    """What became of a wait."""

    READY = "ready"
    """A receive may find something now: it does not wait."""
    FULL = "full"
    """Too many wait."""
    WAITS = "waits"
    """Its answer follows."""


class Waits:
    """Keeps and answers the waits."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        queues: QueueTable,
        topics: TopicTable,
        opener: Opener,
        work: asyncio.Event,
    ) -> None:
        """`work` is set when there is a wait that will expire."""
        self._subscriptions = subscriptions
        self._queues = queues
        self._topics = topics
        self._opener = opener
        self._work = work
        self._waiters = Waiters()
        self._woken: list[Waiter] = []
        self._ids = count(-1, -1)
        """Of waits that no client numbers. Clients count upwards."""

    @property
    def count(self) -> int:
        """Number of waits."""
        return self._waiters.count

    def wait(self, peer: Peer, command: Command) -> bytes | None:
        """Handle 9034. Raises RefusedRequest as a receive would."""
        header = command.read(WaitHeader)
        key = (header.group, header.topic)
        if header.wait_ms <= 0:
            self._answer(
                [dropped] if (dropped := self._waiters.drop(key, peer.id, header.wait_id)) else [],
                is_ready=False,
            )
            return None if command.is_oneway else _ready(command.opaque, is_ready=False)
        config = self._opener.group(header.group)
        self._opener.topic(header.topic)
        subscription = self._subscriptions.open(header.group, header.topic)
        if self._is_ready(subscription):
            return _ready(command.opaque, is_ready=True)
        if self._waiters.is_full:
            return _ready(command.opaque, is_ready=False)
        deadline_ms = loop_ms() + min(header.wait_ms, WAIT_MS_MAX)
        answer = partial(_send_ready, peer, command.opaque)
        self._add(Waiter(key, header.wait_id, deadline_ms, peer, answer), subscription, config)
        return None

    def hold(
        self,
        peer: Peer,
        subscription: Subscription,
        queue_id: int,
        deadline_ms: int,
        of_key_max: int,
        answer: Callable[[bool], object],
    ) -> Held:
        """Wait until a receive from one queue, -1 for all, may find something, at most until a time of the loop's clock.

        `answer` is called once if it waits. At most `of_key_max` wait for one group and topic. Raises RefusedRequest as a receive would.
        """
        key = (subscription.group, subscription.topic)
        config = self._opener.group(subscription.group)
        if self._is_ready(subscription, queue_id):
            return Held.READY
        if self._waiters.is_full or self._waiters.count_of(key) >= of_key_max:
            return Held.FULL
        self._add(Waiter(key, next(self._ids), deadline_ms, peer, answer, queue_id), subscription, config)
        return Held.WAITS

    def count_of(self, group: str, topic: str) -> int:
        """Return how many waits a group has in a topic."""
        return self._waiters.count_of((group, topic))

    def _add(self, waiter: Waiter, subscription: Subscription, config: SubscriptionGroupConfig) -> None:
        replaced = self._waiters.add(waiter, self._opener.wanted(subscription, config, is_retry=False).tags)
        self._work.set()
        if replaced is not None:
            self._answer([replaced], is_ready=False)

    def _is_ready(self, subscription: Subscription, queue_id: int = -1) -> bool:
        """Whether a receive may find something now."""
        if self._has_some(subscription, "", queue_id):
            return True
        retries = self._subscriptions.find(subscription.group, retry_topic(subscription.group))
        if retries is None:
            return bool(list(self._queues.of_topic(retry_topic(subscription.group))))
        return self._has_some(retries, subscription.topic)

    def _has_some(self, subscription: Subscription, route: str, queue_id: int = -1) -> bool:
        config = self._topics.find(subscription.topic)
        queues = 0 if config is None else config.read_queue_nums
        for queue in self._queues.of_topic(subscription.topic):
            if queue.queue_id >= queues or queue_id not in {-1, queue.queue_id}:
                continue
            leases = subscription.queues.get(queue.queue_id)
            if leases is None:
                if queue.max_offset > queue.min_offset:
                    return True
                continue
            if leases.table.has_due() or (route and leases.table.has_due(route)):
                return True
            start, _end = leases.table.unseen.first
            if start < queue.max_offset and not leases.table.is_full:
                return True
        return False

    def offer(self, subscription: Subscription) -> None:
        """Wake receivers for messages that may be due."""
        if not self._waiters.count:
            return
        if subscription.topic.startswith(RETRY_PREFIX):
            self._answer(
                self._waiters.take_if(k for k in self._waiters.keys_now() if k[0] == subscription.group),
                is_ready=True,
            )
        elif self._is_ready(subscription):
            self._answer(
                self._waiters.take((subscription.group, subscription.topic), WOKEN_AT_ONCE), is_ready=True
            )

    def _answer(self, waiters: list[Waiter], *, is_ready: bool) -> None:
        for waiter in waiters:
            waiter.answer(is_ready)

    def arrived(self, topic: str, queue_id: int, tags_codes: Sequence[int]) -> None:
        """Record readable messages. `answer_arrivals` follows."""
        waiters = self._waiters
        if topic.startswith(RETRY_PREFIX):
            group = topic.removeprefix(RETRY_PREFIX)
            self._woken += waiters.take_if(key for key in waiters.keys_now() if key[0] == group)
        self._woken += waiters.arrived(topic, tags_codes, queue_id)

    def answer_arrivals(self) -> None:
        """Answer the waits that arrivals have woken."""
        if self._woken:
            woken, self._woken = self._woken, []
            self._answer(woken, is_ready=True)

    def expire(self, *, offer: bool) -> None:
        """Answer the waits whose time is over. With `offer`, offer what no receiver fetched."""
        if not self._waiters.count:
            return
        self._answer(self._waiters.expire(loop_ms()), is_ready=False)
        if offer:
            self._offer_all()

    def answer_group(self, name: str) -> None:
        """Answer the waits of a group: their next receive reports what changed."""
        self._answer(
            self._waiters.take_if(key for key in self._waiters.keys_now() if key[0] == name), is_ready=True
        )

    def topic_deleted(self, topic: str) -> None:
        """Answer the waits on a deleted topic: their next receive reports it."""
        self._answer(
            self._waiters.take_if(key for key in self._waiters.keys_now() if key[1] == topic), is_ready=True
        )

    def close_peer(self, peer_id: int) -> None:
        """Drop the waits of a closed connection."""
        self._waiters.close_peer(peer_id)

    def close(self) -> None:
        """Answer all waits."""
        self._answer(self._waiters.take_if(self._waiters.keys_now()), is_ready=False)

    def _offer_all(self) -> None:
        for group, topic in self._waiters.keys_now():
            subscription = self._subscriptions.find(group, topic)
            if subscription is not None:
                self.offer(subscription)


def _ready(opaque: int, *, is_ready: bool) -> bytes:
    return encode_response(ResponseCode.SUCCESS, opaque, WaitReplyHeader(ready=is_ready))


def _send_ready(peer: Peer, opaque: int, is_ready: bool) -> None:
    peer.send(_ready(opaque, is_ready=is_ready))


def loop_ms() -> int:
    """Return the time of the loop's clock."""
    return int(asyncio.get_running_loop().time() * 1000)
