"""What the unit and the index of a settled item's record hold, read from its properties."""

from broker_store.config.delay_levels import LevelList
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import UNIQ_KEY, find_property, tags_code

_UNIQUE_KEY = UNIQ_KEY.encode() + b"\x01"
_OTHER_UNIQUE_KEY = b"\x02" + _UNIQUE_KEY
_UNIQUE_KEY_AT = len(_UNIQUE_KEY)


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
