"""Makes placed records readable: units of their queues, entries of the index, arrivals for waiting readers."""

from collections.abc import Iterator, Sequence

from broker_store.commit.message import Arrivals, IndexEntry, key_entries
from broker_store.commit.record_writer import Placed
from gantry_wire.messages.properties import index_key_hashes


def show(placed: Sequence[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable, in log order."""
    unique = _unique_hashes(placed)
    for queue, offset, position, size, code, unique_key, keys, _ in placed:
        queue.units.append(offset, position, size, code)
        if unique_key:
            index.append((next(unique[queue.topic]), position, store_ms))
        if keys:
            index += key_entries(queue.topic, keys, position, store_ms)
        if arrivals is not None:
            arrivals.setdefault(queue, []).append(code)


def show_plain(
    topic: str, placed: Sequence[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None
) -> None:
    """As `show`, for records of one topic that all have a unique key and no other keys."""
    for queue, offset, position, size, code, _, _, _ in placed:
        queue.units.append(offset, position, size, code)
    hashes = index_key_hashes(topic, [row[5] or "" for row in placed])
    index += [(hashed, row[2], store_ms) for hashed, row in zip(hashes, placed, strict=True)]
    if arrivals is not None:
        for row in placed:
            arrivals.setdefault(row[0], []).append(row[4])


def _unique_hashes(placed: Sequence[Placed]) -> dict[str, Iterator[int]]:
    """Return the hashes of the unique keys in order. Hashing by topic is cheaper."""
    keys: dict[str, list[str]] = {}
    for queue, _, _, _, _, unique_key, _, _ in placed:
        if unique_key:
            keys.setdefault(queue.topic, []).append(unique_key)
    return {topic: iter(index_key_hashes(topic, of_topic)) for topic, of_topic in keys.items()}
