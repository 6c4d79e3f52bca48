"""A half message as the checker sees it, and the states an undecided one goes through here. Pure.

What a half says of itself is in its record alone: topic, producer group, how often its producer was asked, when it began. So whoever
holds the claim knows the same of it.
"""

from enum import Enum
from typing import NamedTuple

from gantry_wire.properties import (
    CHECK_IMMUNITY_TIME,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
)
from gantry_wire.record import Record
from gantry_wire.transaction_bodies import BEGUN_PROPERTY

NUMBER_DIGITS_MAX = 18


class State(Enum):
    """Where an undecided half stands."""

    WAITING = "waiting"
    """For the time of its next check."""
    ASKING = "asking"
    """Its next copy is being written; then its producer is asked."""
    GIVING_UP = "giving up"
    """It is being parked."""
    GONE = "gone"
    """Decided, or parked."""


class Event(Enum):
    """What happens to one."""

    CHECK_DUE = "check due"
    TOO_OLD = "too old"
    COPIED = "copied"
    FAILED = "failed"
    PARKED = "parked"
    DECIDED = "decided"


STATES: dict[State, dict[Event, State]] = {
    State.WAITING: {
        Event.CHECK_DUE: State.ASKING,
        Event.TOO_OLD: State.GIVING_UP,
        Event.DECIDED: State.GONE,
    },
    State.ASKING: {Event.COPIED: State.WAITING, Event.FAILED: State.WAITING, Event.DECIDED: State.GONE},
    State.GIVING_UP: {Event.PARKED: State.GONE, Event.FAILED: State.WAITING, Event.DECIDED: State.GONE},
    State.GONE: {},
}


Transaction = tuple[str, str, str]
"""Producer group, topic and unique key."""


class Half(NamedTuple):
    """The newest copy of an undecided half. Times in ms of the store's clock."""

    key: str
    group: str
    topic: str
    queue_id: int
    offset: int
    position: int
    begun_ms: int
    """When the first copy was stored."""
    stored_ms: int
    """When this copy was stored: the moment of the newest check, where there was one."""
    checks: int
    immunity_ms: int
    """How long its sender wants to be left alone; 0: it did not say."""
    message_id: str

    @property
    def transaction(self) -> Transaction:
        """Halves that agree in this are copies of one transaction, as the store sees it too."""
        return self.group, self.topic, self.key


def read_half(record: Record) -> Half:
    """Return what a record of the half topic, or of the topic of given up ones, says. MalformedProperties for bytes that are no text."""
    named = record.property_map()
    checks = _number(named.get(TRANSACTION_CHECK_TIMES))
    return Half(
        named.get(UNIQ_KEY) or record.message_id,
        named.get(PRODUCER_GROUP, ""),
        named.get(REAL_TOPIC, ""),
        _number(named.get(REAL_QUEUE_ID)),
        record.queue_offset,
        record.position,
        _number(named.get(BEGUN_PROPERTY)) or (record.born_timestamp if checks else record.store_timestamp),
        record.store_timestamp,
        checks,
        _number(named.get(CHECK_IMMUNITY_TIME)) * 1000,
        record.message_id,
    )


def _number(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if text is not None and is_number else 0
