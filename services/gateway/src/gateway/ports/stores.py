"""What the gateway needs from outside, in its own words: stores, nameservers, rate limits, hints.

Adapters: link_store.py and link_names.py over gantry_link, redis_limits.py, hints over NATS. Tests use memory.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from gantry_wire.batch import BatchItem


class StoreRefused(Exception):
    """A store or nameserver answered with an error code; nothing was done."""

    def __init__(self, code: int, remark: str, gantry_code: str = "") -> None:
        super().__init__(remark)
        self.code, self.remark, self.gantry_code = code, remark, gantry_code


class PeerAway(Exception):
    """No answer. `sent` says whether the request may have reached the peer and may have been carried out."""

    def __init__(self, peer: str, sent: bool, words: str) -> None:
        super().__init__(words)
        self.peer, self.sent = peer, sent


class Unusable(PeerAway):
    """A peer answered with what cannot be used; the words say what and why. Nothing was done."""

    def __init__(self, peer: str, words: str) -> None:
        super().__init__(peer, False, words)


class Stored(Struct, gc=False):
    """Where a message lies. `code` is 0, or the item's own refusal in a batch."""

    offset_message_id: str
    message_id: str
    queue_id: int
    queue_offset: int
    is_durable: bool
    is_duplicate: bool
    code: int = 0
    gantry_code: str = ""
    deliver_ms: int | None = None
    """When a delayed message is due; `queue_id` is then its target and it has no offset yet."""


StoreOutcome = list[Stored] | StoreRefused | PeerAway
"""A result for each message of a request, or why there is none."""


class Pulled(NamedTuple):
    """Answer to a pull: RocketMQ's pull code, the offsets, and the log's own bytes."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes | memoryview


class TopicSettings(NamedTuple):
    """A topic as one broker has it; queues per broker, perm in RocketMQ's bits."""

    topic: str
    read_queues: int
    write_queues: int
    perm: int


class GroupSettings(NamedTuple):
    """A consumer group as one broker has it."""

    group: str
    is_enabled: bool
    is_broadcast_enabled: bool
    retry_max_times: int
    retry_queues: int
    retry_policy: str = ""
    """As stores keep it; "" for RocketMQ's delay levels."""
    order: str = ""
    start: str = ""
    """Order and start of receives; "" for the default."""


class QueueBounds(NamedTuple):
    """Lowest offset still kept, and the offset the next message will get."""

    queue_id: int
    min_offset: int
    max_offset: int


class QueueProgress(NamedTuple):
    """How far a group is in one queue of one broker."""

    topic: str
    queue_id: int
    offset: int
    max_offset: int


class Store(Protocol):
    """One broker-store. A call with a callback passes StoreRefused or PeerAway to it, every other one raises them."""

    @property
    def broker(self) -> str:
        """The broker's name."""
        ...

    def send(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: str,
        on_result: Callable[[StoreOutcome], None],
    ) -> None:
        """Store one message. Passes the result to the callback, in a list of one, or why there is none."""
        ...

    def send_batch(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[BatchItem],
        on_result: Callable[[StoreOutcome], None],
    ) -> None:
        """Store messages in one queue, all or none. Passes a result for each to the callback, or why there is none."""
        ...

    async def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        wait_ms: int,
        tags: str,
        *,
        sql: str = "",
    ) -> Pulled:
        """Read a queue from an offset on; held up to `wait_ms` while there is nothing.

        `tags` as `a||b`, or a condition in SQL92; "" for all.
        """
        ...

    async def message_at(self, position: int) -> bytes:
        """Return the record at a position of the log."""
        ...

    async def messages_by_key(
        self, topic: str, key: str, begin_ms: int, end_ms: int, count_max: int, *, is_unique: bool
    ) -> bytes:
        """Return records by key, or by unique key, stored between two times."""
        ...

    async def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the first offset stored at a time or later."""
        ...

    async def queue_bounds(self, topic: str) -> list[QueueBounds]:
        """Return the bounds of a topic's queues."""
        ...

    async def put_topic(self, settings: TopicSettings) -> None:
        """Create a topic or change it."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        ...

    async def topics(self) -> list[TopicSettings]:
        """Return every topic."""
        ...

    async def groups(self) -> list[GroupSettings]:
        """Return every consumer group."""
        ...

    async def put_group(self, settings: GroupSettings) -> None:
        """Create a group or change it."""
        ...

    async def delete_group(self, group: str, *, with_offsets: bool) -> None:
        """Delete a group."""
        ...

    async def set_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set a group's offset in one queue, durably."""
        ...

    async def reset_offset(self, group: str, topic: str, queue_id: int, offset: int, *, dry: bool) -> int:
        """Have a group go on at an offset of one queue, durably; its clients are told. With `dry` nothing is done.

        Returns how many messages come again beyond those below the committed offset: what was acknowledged or is on lease.
        """
        ...

    async def progress(self, group: str, topic: str) -> list[QueueProgress]:
        """Return how far a group is; `topic` "" for all it has offsets of."""
        ...

    async def redriven(self, group: str, from_offset: int) -> list[tuple[int, int]]:
        """Return which dead letters of a group were sent again: ranges [first, end) from an offset on, ascending."""
        ...

    async def runtime_info(self) -> dict[str, str]:
        """Return the broker's own figures."""
        ...

    async def settings(self, changes: dict[str, str]) -> dict[str, str]:
        """Change settings, all or none, and return all that are in force."""
        ...


class Stores(Protocol):
    """Makes the client of a broker; connections are kept and shared by address."""

    def at(self, broker: str, address: str) -> Store:
        """Return the client of a broker at an address."""
        ...


class QueueData(NamedTuple):
    """One broker's share of a topic in a route."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int


class RouteData(NamedTuple):
    """A topic's route as a nameserver tells it: the queues, and each broker's master address."""

    queues: tuple[QueueData, ...]
    addresses: dict[str, str]


class Broker(NamedTuple):
    """One broker of a cluster with its master's address, and the numeric hosts that address may mean."""

    name: str
    cluster: str
    address: str
    hosts: tuple[str, ...] = ()


class Names(Protocol):
    """The nameservers. Reads raise PeerAway when none answered; what one of them lacks is looked for at the others.

    Writes go to every one and return the addresses that did not take it.
    """

    @property
    def addresses(self) -> Sequence[str]:
        """The nameservers as they were last read."""
        ...

    async def route(self, topic: str) -> RouteData | None:
        """Return a topic's route; None when no nameserver knows it."""
        ...

    async def route_at(self, address: str, topic: str) -> RouteData | None:
        """Return a topic's route as one nameserver tells it."""
        ...

    async def brokers(self) -> list[Broker]:
        """Return every registered broker."""
        ...

    async def topics(self) -> list[str]:
        """Return every topic."""
        ...

    async def value(self, namespace: str, key: str) -> str | None:
        """Return a value of the KV configuration."""
        ...

    async def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace of the KV configuration, by key."""
        ...

    async def delete_topic(self, topic: str) -> list[str]:
        """Delete a topic."""
        ...

    async def put_value(self, namespace: str, key: str, value: str) -> list[str]:
        """Set a value of the KV configuration."""
        ...

    async def delete_value(self, namespace: str, key: str) -> list[str]:
        """Delete a value of the KV configuration."""
        ...


class RateLimits(Protocol):
    """Token buckets shared by all gateways. Never raises: without its server everything passes."""

    async def take(self, client: str, topic: str, count: int) -> int:
        """Take `count` tokens; return 0, or the milliseconds to wait."""
        ...


class Clocks(Protocol):
    """The time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class Hints(Protocol):
    """Hints that may be lost."""

    def publish(self, subject: str, payload: bytes = b"") -> None:
        """Send a hint."""
        ...


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def outcome_of(
    call: Callable[[Unpack[Ts], Callable[[T | StoreRefused | PeerAway], None]], None], *arguments: *Ts
) -> T:
    """Make a call that passes its outcome to a callback; return the result, or raise why there is none."""
    future: asyncio.Future[T | StoreRefused | PeerAway] = asyncio.get_running_loop().create_future()

    def on_result(outcome: T | StoreRefused | PeerAway) -> None:
        if not future.done():
            future.set_result(outcome)

    call(*arguments, on_result)
    outcome = await future
    if isinstance(outcome, StoreRefused | PeerAway):
        raise outcome
    return outcome
