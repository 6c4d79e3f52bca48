"""A half message as the checker sees it, and the states of an undecided one. Pure.

The record alone holds everything about a half: topic, producer group, number of checks, begin. So whichever checker
holds the claim knows the same.
"""

from enum import Enum
from typing import NamedTuple

from gantry_wire.messages.properties import (
    CHECK_IMMUNITY_TIME,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
)
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY
from gantry_wire.records.message_record import Record

NUMBER_DIGITS_MAX = 18


class State(Enum):
    """The state of an undecided half."""

    WAITING = "waiting"
    """Waiting for its next check."""
    ASKING = "asking"
    """Its next copy is being written. Its producer is asked after that."""
    PARKING = "parking"
    """It is being parked."""
    ENDED = "ended"
    """Decided, or parked."""


class Event(Enum):
    """An event of an undecided half."""

    CHECK_DUE = "check due"
    TOO_OLD = "too old"
    COPIED = "copied"
    FAILED = "failed"
    PARKED = "parked"
    DECIDED = "decided"


STATES: dict[State, dict[Event, State]] = {
    State.WAITING: {
        Event.CHECK_DUE: State.ASKING,
        Event.TOO_OLD: State.PARKING,
        Event.DECIDED: State.ENDED,
    },
    State.ASKING: {Event.COPIED: State.WAITING, Event.FAILED: State.WAITING, Event.DECIDED: State.ENDED},
    State.PARKING: {Event.PARKED: State.ENDED, Event.FAILED: State.WAITING, Event.DECIDED: State.ENDED},
    State.ENDED: {},
}


Transaction = tuple[str, str, str]
"""Producer group, topic and unique key."""


class Half(NamedTuple):
    """The newest copy of an undecided half. Times are in ms of the store's clock."""

    key: str
    group: str
    topic: str
    queue_id: int
    offset: int
    position: int
    begun_ms: int
    """When the first copy was stored."""
    stored_ms: int
    """When this copy was stored: the time of the newest check, if there was one."""
    checks: int
    immunity_ms: int
    """The first wait its sender requested; 0 for none."""
    message_id: str

    @property
    def transaction(self) -> Transaction:
        """Halves with equal values are copies of one transaction, as the store sees it too."""
        return self.group, self.topic, self.key


def read_half(record: Record) -> Half:
    """Return the half in a record of the half topic or the topic of parked halves.

    One with damaged properties must not stop the checks of all others.
    """
    named = record.readable_properties()
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
