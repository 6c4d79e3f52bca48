"""Makes placed records readable: units of their queues, entries of the index, arrivals for waiting readers."""

from collections.abc import Sequence
from itertools import repeat

from broker_store.commit.message import Arrivals, IndexEntry, key_entries
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import Placed
from gantry_wire.messages.properties import index_key_hashes


def show(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable, in log order. A record's unique key precedes its other keys in the index."""
    if not placed:
        return
    for queue, offset, position, size, code, _, _, _ in placed:
        queue.units.append(offset, position, size, code)
    queues, _, positions, _, codes, unique_keys, keys, _ = zip(*placed, strict=True)
    if any(keys) or not all(unique_keys):
        _index_each(placed, store_ms, index)
    else:
        index += zip(_hashes(queues, unique_keys), positions, repeat(store_ms))
    if arrivals is not None:
        for queue, code in zip(queues, codes, strict=True):
            arrivals.setdefault(queue, []).append(code)


def _index_each(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry]) -> None:
    unique = [(row[0], row[5]) for row in placed if row[5]]
    hashes = iter(_hashes([queue for queue, _ in unique], [key for _, key in unique]))
    for queue, _, position, _, _, unique_key, keys, _ in placed:
        if unique_key:
            index.append((next(hashes), position, store_ms))
        if keys:
            index += key_entries(queue.topic, keys, position, store_ms)


def _hashes(queues: Sequence[Queue], keys: Sequence[str]) -> list[int]:
    """Return the hash of each queue's topic and key. Hashing by topic is cheaper."""
    topics = {queue.topic for queue in set(queues)}
    if len(topics) == 1:
        return index_key_hashes(topics.pop(), keys)
    of_topic = {
        topic: iter(
            index_key_hashes(
                topic, [key for queue, key in zip(queues, keys, strict=True) if queue.topic == topic]
            )
        )
        for topic in topics
    }
    return [next(of_topic[queue.topic]) for queue in queues]
