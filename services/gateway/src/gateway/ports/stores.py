"""The gateway's ports to stores, nameservers, rate limits and hints.

Adapters: link_store.py and link_names.py over gantry_link, redis_limits.py, hints over NATS. Tests use memory.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from gantry_wire.messages.batch import BatchItem


class StoreRefused(Exception):
    """A store or nameserver answered with an error code; it did nothing."""

    def __init__(self, code: int, remark: str, gantry_code: str = "") -> None:
        super().__init__(remark)
        self.code, self.remark, self.gantry_code = code, remark, gantry_code


class PeerAway(Exception):
    """No response. `sent` says whether the peer may have received and carried out the request."""

    def __init__(self, peer: str, sent: bool, message: str) -> None:
        super().__init__(message)
        self.peer, self.sent = peer, sent


class Unusable(PeerAway):
    """A peer sent an unusable response; the message says why. It did nothing."""

    def __init__(self, peer: str, message: str) -> None:
        super().__init__(peer, False, message)


class Stored(Struct, gc=False):
    """Where a message is stored. `code` is 0, or the item's own error code in a batch."""

    offset_message_id: str
    message_id: str
    queue_id: int
    queue_offset: int
    is_durable: bool
    is_duplicate: bool
    code: int = 0
    gantry_code: str = ""
    deliver_ms: int | None = None
    """When a delayed message is due; `queue_id` is then its target queue, and it has no offset yet."""


StoreOutcome = list[Stored] | Exception
"""A result for each message of a request, or the error: StoreRefused, PeerAway, or a fault of the gateway."""


class Pulled(NamedTuple):
    """Response to a pull: RocketMQ's pull code, the offsets, and bytes of the log."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    records: bytes | memoryview
    suggested_broker_id: int = 0
    """From which of its replicas the broker wants this queue to be read next: 0 is its master."""


class TopicSettings(NamedTuple):
    """A topic at one broker; queues per broker, perm in RocketMQ's bits. `message_type` is RocketMQ's attribute, "" if it has none."""

    topic: str
    read_queues: int
    write_queues: int
    perm: int
    message_type: str = ""


class GroupSettings(NamedTuple):
    """A consumer group at one broker."""

    group: str
    is_enabled: bool
    is_broadcast_enabled: bool
    retry_max_times: int
    retry_queues: int
    retry_policy: str = ""
    """In the stores' format; "" for RocketMQ's delay levels."""
    order: str = ""
    start: str = ""
    """Order and start of receives; "" for the default."""


class QueueBounds(NamedTuple):
    """Lowest offset still stored, and the offset of the next message."""

    queue_id: int
    min_offset: int
    max_offset: int


class QueueProgress(NamedTuple):
    """A group's progress in one queue of one broker."""

    topic: str
    queue_id: int
    offset: int
    max_offset: int


class Store(Protocol):
    """One broker-store. Calls with a callback pass StoreRefused or PeerAway to it, all others raise them."""

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
        *,
        sys_flag: int = 0,
        born_ms: int | None = None,
    ) -> None:
        """Store one message. Passes a list with the result, or the error, to the callback.

        `sys_flag` is the record's, and says how the body is compressed; `born_ms` is when the client made the message: None for now.
        """
        ...

    def send_batch(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[BatchItem],
        on_result: Callable[[StoreOutcome], None],
        *,
        born_ms: int | None = None,
    ) -> None:
        """Store messages in one queue, all or none. Passes a list of results, or the error, to the callback."""
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
        """Read a queue from an offset; held up to `wait_ms` while there is no message.

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
        """Return the first offset stored at or after a time."""
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

    async def topic(self, topic: str) -> TopicSettings:
        """Return one topic; StoreRefused (TOPIC_NOT_EXIST) if the store does not have it."""
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
        """Reset a group's offset in one queue, durably, and notify its clients. With `dry`, do nothing.

        Returns how many messages will be delivered again above the committed offset: acknowledged or leased ones.
        """
        ...

    async def progress(self, group: str, topic: str) -> list[QueueProgress]:
        """Return a group's progress; `topic` "" for all topics with offsets."""
        ...

    async def redriven(self, group: str, from_offset: int) -> list[tuple[int, int]]:
        """Return the dead letters of a group that were redriven: ranges [first, end) from an offset, ascending."""
        ...

    async def runtime_info(self) -> dict[str, str]:
        """Return the broker's own metrics."""
        ...

    async def settings(self, changes: dict[str, str]) -> dict[str, str]:
        """Change settings, all or none, and return all settings in force."""
        ...


class Stores(Protocol):
    """Creates store clients; connections are kept and shared by address."""

    def at(self, broker: str, address: str) -> Store:
        """Return the client of a broker at an address."""
        ...

    def leave(self, address: str) -> None:
        """End all calls to an address whose store leads no more: each raises PeerAway, with `sent` if it may have been carried out."""
        ...


class QueueData(NamedTuple):
    """One broker's share of a topic in a route."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int


class RouteData(NamedTuple):
    """A topic's route from a nameserver: the queues, each broker's master address, and those of its slaves by broker id."""

    queues: tuple[QueueData, ...]
    addresses: dict[str, str]
    slaves: Mapping[str, Mapping[int, str]] = MappingProxyType({})


class Broker(NamedTuple):
    """One broker of a cluster with its master's address, and the numeric hosts of that address."""

    name: str
    cluster: str
    address: str
    hosts: tuple[str, ...] = ()


class Names(Protocol):
    """The nameservers. A read tries the others if one lacks the value, and raises PeerAway if none responds.

    Writes go to all of them and return the addresses that did not accept the write.
    """

    @property
    def addresses(self) -> Sequence[str]:
        """The last known nameserver addresses."""
        ...

    async def route(self, topic: str) -> RouteData | None:
        """Return a topic's route; None if no nameserver knows it."""
        ...

    async def route_at(self, address: str, topic: str) -> RouteData | None:
        """Return a topic's route from one nameserver."""
        ...

    async def brokers(self) -> list[Broker]:
        """Return every registered broker."""
        ...

    async def replicas(self) -> dict[str, dict[int, str]]:
        """Return the addresses of every broker name by broker id."""
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
    """Token buckets shared by all gateways. Never raises: without Redis, everything passes."""

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
    call: Callable[[Unpack[Ts], Callable[[T | Exception], None]], None], *arguments: *Ts
) -> T:
    """Make a call that passes its outcome to a callback; return the result or raise the error."""
    future: asyncio.Future[T | Exception] = asyncio.get_running_loop().create_future()

    def on_result(outcome: T | Exception) -> None:
        if not future.done():
            future.set_result(outcome)

    call(*arguments, on_result)
    outcome = await future
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
