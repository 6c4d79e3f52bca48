"""The queue list of a topic that keyed and sharded sends hash over: stable, whichever brokers are alive.

Stored in the nameservers' KV config (`broker-a:8;broker-b:8`, like RocketMQ's order configuration). After a change, keyed
sends keep the previous list until the idempotency window has passed, so that a retry finds its original.
"""

from typing import NamedTuple

from gantry_wire.messages.properties import java_hash
from gateway.http.problems import away

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
PREVIOUS_NAMESPACE = "GANTRY_ORDER_PREVIOUS"

QUEUES_MAX = 65_536
"""Maximum queues of a topic over all brokers: the limit of one store, or 64 stores with 1024 each."""

_DIGITS_MAX = 18
"""Longer numbers are always too large."""

Queue = tuple[str, int]
"""Broker name and queue id."""


class QueueList(NamedTuple):
    """Queues in their fixed order: brokers by name, queue ids ascending."""

    counts: tuple[tuple[str, int], ...]
    queues: tuple[Queue, ...]

    def queue_of(self, key: str) -> Queue:
        """Return the queue of a key. Uses the Java clients' hash, so that both choose the same queue of a list."""
        return self.queues[abs(java_hash(key)) % len(self.queues)]

    def text(self) -> str:
        """Return the list in the format of the KV config."""
        return ";".join(f"{broker}:{count}" for broker, count in self.counts)

    def only(self, broker: str) -> "QueueList | None":
        """Return the share of one broker."""
        return of_counts({name: count for name, count in self.counts if name == broker})


class ListHistory(NamedTuple):
    """The list of a topic and, after a change, the previous one with the time of the change (ms)."""

    current: QueueList
    previous: QueueList | None = None
    changed_ms: int = 0

    def in_use(self, now_ms: int, window_ms: int) -> QueueList:
        """Return the list that keyed sends hash over at `now_ms`."""
        if self.previous is not None and now_ms < self.changed_ms + window_ms:
            return self.previous
        return self.current


def of_counts(counts: dict[str, int]) -> QueueList | None:
    """Return the list for these write queues per broker; None if there are none. Raises 503 over the maximum."""
    total = sum(max(count, 0) for count in counts.values())
    if total > QUEUES_MAX:
        raise away(
            f"a list of {total} queues is in the nameservers (namespace {ORDER_NAMESPACE}); "
            f"a topic may have {QUEUES_MAX} over all its brokers: correct it there"
        )
    kept = tuple(sorted((broker, count) for broker, count in counts.items() if count > 0))
    queues = tuple((broker, queue_id) for broker, count in kept for queue_id in range(count))
    return QueueList(kept, queues) if queues else None


def parse(text: str) -> QueueList | None:
    """Parse `broker-a:8;broker-b:8`; None if it is not such a list."""
    counts: dict[str, int] = {}
    for part in filter(None, text.split(";")):
        broker, colon, count = part.rpartition(":")
        if not colon or not broker or not count.isascii() or not count.isdigit():
            return None
        counts[broker.strip()] = int(count) if len(count) <= _DIGITS_MAX else QUEUES_MAX + 1
    return of_counts(counts)


def holders_in(text: str) -> set[str]:
    """Return the brokers with queues in a list; none if it is not such a list."""
    parts = [part.rpartition(":") for part in text.split(";") if part]
    if not all(broker and count.isascii() and count.isdigit() for broker, _colon, count in parts):
        return set()
    return {broker.strip() for broker, _colon, count in parts if count.strip("0")}


def parse_previous(text: str) -> tuple[QueueList, int] | None:
    """Parse `<list>@<ms of the change>`."""
    list_text, at, changed_ms = text.rpartition("@")
    queue_list = parse(list_text)
    if (
        not at
        or queue_list is None
        or not (changed_ms.isascii() and changed_ms.isdigit() and len(changed_ms) <= _DIGITS_MAX)
    ):
        return None
    return queue_list, int(changed_ms)


def previous_text(queue_list: QueueList, changed_ms: int) -> str:
    """Format what `parse_previous` parses."""
    return f"{queue_list.text()}@{changed_ms}"
