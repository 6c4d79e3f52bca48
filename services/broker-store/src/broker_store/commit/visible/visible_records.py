"""Makes placed records readable: units of their queues, entries of the index, arrivals for waiting readers."""

from collections.abc import Sequence

from broker_store.commit.message import Arrivals, IndexEntry, key_entries
from broker_store.commit.record_writer import Placed
from gantry_wire.messages.properties import index_key_hashes


def show(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable, in log order. A record's unique key precedes its other keys in the index."""
    for queue, offset, position, size, code, _, _, _ in placed:
        queue.units.append(offset, position, size, code)
    with_unique = [row for row in placed if row[5]]
    hashes = _unique_hashes(with_unique)
    with_keys = [row for row in placed if row[6]]
    if with_keys:
        next_hash = iter(hashes)
        for queue, _, position, _, _, unique_key, keys, _ in placed:
            if unique_key:
                index.append((next(next_hash), position, store_ms))
            if keys:
                index += key_entries(queue.topic, keys, position, store_ms)
    else:
        index += [(hashed, row[2], store_ms) for hashed, row in zip(hashes, with_unique, strict=True)]
    if arrivals is not None:
        for row in placed:
            arrivals.setdefault(row[0], []).append(row[4])


def _unique_hashes(placed: Sequence[Placed]) -> list[int]:
    """Return the hashes of the unique keys in order. Hashing by topic is cheaper."""
    topics = {row[0].topic for row in placed}
    if len(topics) <= 1:
        return index_key_hashes(topics.pop(), [row[5] or "" for row in placed]) if topics else []
    of_topic = {
        topic: iter(index_key_hashes(topic, [row[5] or "" for row in placed if row[0].topic == topic]))
        for topic in topics
    }
    return [next(of_topic[row[0].topic]) for row in placed]
