"""Makes placed records readable: units of their queues, entries of the index, arrivals for waiting readers."""

from collections.abc import Collection, Sequence

from broker_store.commit.message import Arrivals, IndexEntry, key_entries
from broker_store.commit.record_writer import Placed
from gantry_wire.messages.properties import index_key_hashes


def show(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable, in log order. A record's unique key precedes its other keys in the index."""
    if not placed:
        return
    topic, is_even = placed[0][0].topic, True
    for queue, offset, position, size, code, unique_key, keys, _ in placed:
        queue.units.append(offset, position, size, code)
        if keys or not unique_key or queue.topic is not topic:
            is_even = False
    if is_even:
        _index_unique(placed, [topic], store_ms, index)
    else:
        _index_mixed(placed, store_ms, index)
    if arrivals is not None:
        for queue, _, _, _, code, _, _, _ in placed:
            arrivals.setdefault(queue, []).append(code)


def _index_mixed(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry]) -> None:
    unique = [row for row in placed if row[5]]
    topics = {queue.topic for queue in {row[0] for row in unique}}
    if not any([row[6] for row in placed]):  # noqa: C419 - a list is faster
        _index_unique(unique, topics, store_ms, index)
        return
    hashes = iter(_hashes(unique, topics))
    for queue, _, position, _, _, unique_key, keys, _ in placed:
        if unique_key:
            index.append((next(hashes), position, store_ms))
        if keys:
            index += key_entries(queue.topic, keys, position, store_ms)


def _index_unique(
    unique: Sequence[Placed], topics: Collection[str], store_ms: int, index: list[IndexEntry]
) -> None:
    """Index the unique keys of records that all have one, in these topics."""
    hashes = _hashes(unique, topics)
    index += [(hashed, row[2], store_ms) for hashed, row in zip(hashes, unique, strict=True)]


def _hashes(unique: Sequence[Placed], topics: Collection[str]) -> list[int]:
    """Return the hash of each record's topic and unique key. Hashing by topic is cheaper."""
    if len(topics) == 1:
        (topic,) = topics
        return index_key_hashes(topic, [row[5] or "" for row in unique])
    of_topic = {
        topic: iter(index_key_hashes(topic, [row[5] or "" for row in unique if row[0].topic == topic]))
        for topic in topics
    }
    return [next(of_topic[row[0].topic]) for row in unique]
