"""Records of settled items that lie in the log: what their units hold, and how they become readable."""

from broker_store.delays.levels import LevelList
from broker_store.message import Arrivals, IndexEntry, key_entries
from broker_store.queues import Queue
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import DELAY, find_property, index_key_hash, tags_code

_DELAY = DELAY.encode()

Placed = tuple[Queue, int, int, int, int, bytes | None, bytes | None]
"""One record in the open batch: queue, offset, position, size, code of its unit, unique key, keys."""


def unit_code(topic: str, properties: bytes, levels: LevelList, store_ms: int) -> int:
    """Return what the unit of a record holds: its tag's code, or when it is due where it is a delayed message again."""
    if topic == SCHEDULE_TOPIC:
        return levels.deliver_ms(find_property(properties, _DELAY), store_ms)
    tag = find_property(properties, b"TAGS") if b"TAGS\x01" in properties else None
    return tags_code(tag) if tag else 0


def show(placed: list[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable."""
    for queue, offset, position, size, code, unique_key, keys in placed:
        queue.units.append(offset, position, size, code)
        if unique_key:
            index.append(
                (index_key_hash(queue.topic, unique_key.decode(errors="replace")), position, store_ms)
            )
        if keys:
            index += key_entries(queue.topic, keys.decode(errors="replace"), position, store_ms)
        if arrivals is not None:
            arrivals.setdefault(queue, []).append(code)
