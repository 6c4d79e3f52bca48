"""Records of settled items in the log: the content of their units, and how they become readable."""

from collections.abc import Iterator

from broker_store.commit.message import Arrivals, IndexEntry, key_entries
from broker_store.commit.queues import Queue
from broker_store.config.delay_levels import LevelList
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import UNIQ_KEY, find_property, index_key_hashes, tags_code

_UNIQUE_KEY = UNIQ_KEY.encode() + b"\x01"
_OTHER_UNIQUE_KEY = b"\x02" + _UNIQUE_KEY
_UNIQUE_KEY_AT = len(_UNIQUE_KEY)

Placed = tuple[Queue, int, int, int, int, str | None, str | None]
"""One record in the open batch: queue, offset, position, size, code of its unit, unique key, keys."""


def unit_code(topic: str, properties: bytes, levels: LevelList, store_ms: int) -> int:
    """Return the code of a record's unit: its tag's code, or its due time when it is a delayed message again."""
    if topic == SCHEDULE_TOPIC:
        return levels.deliver_ms(properties, store_ms)
    tag = find_property(properties, b"TAGS") if b"TAGS\x01" in properties else None
    return tags_code(tag) if tag else 0


def unique_key_of(properties: bytes) -> str | None:
    """Return the unique key of stored properties that end with a separator. Most clients put it first."""
    if properties.startswith(_UNIQUE_KEY) and _OTHER_UNIQUE_KEY not in properties:
        return properties[_UNIQUE_KEY_AT : properties.find(b"\x02", _UNIQUE_KEY_AT)].decode(errors="replace")
    return text_of(properties, UNIQ_KEY.encode())


def text_of(properties: bytes, name: bytes) -> str | None:
    """Return a stored property as text."""
    value = find_property(properties, name)
    return None if value is None else value.decode(errors="replace")


def show(placed: list[Placed], store_ms: int, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
    """Make records readable."""
    unique = _unique_hashes(placed)
    for queue, offset, position, size, code, unique_key, keys in placed:
        queue.units.append(offset, position, size, code)
        if unique_key:
            index.append((next(unique[queue.topic]), position, store_ms))
        if keys:
            index += key_entries(queue.topic, keys, position, store_ms)
        if arrivals is not None:
            arrivals.setdefault(queue, []).append(code)


def _unique_hashes(placed: list[Placed]) -> dict[str, Iterator[int]]:
    """Return the hashes of the unique keys in order. Hashing by topic is cheaper."""
    keys: dict[str, list[str]] = {}
    for queue, _, _, _, _, unique_key, _ in placed:
        if unique_key:
            keys.setdefault(queue.topic, []).append(unique_key)
    return {topic: iter(index_key_hashes(topic, of_topic)) for topic, of_topic in keys.items()}
