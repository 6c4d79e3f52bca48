"""The lease in the `extraInfo` (POP_CK) of a popped message, and the retry topics' names that clients derive from it. Pure.

    startOffset popTime invisibleTime reviveQid flag brokerName queueId queueOffset        separated by blanks

A lease is the boot count of the store << 32 | counter. `reviveQid` is the counter, as a signed int. `popTime` is rounded down, so that its
remainder by BOOTS is that of the boot count. Every reply has these two fields, and clients join them again after a change of the invisible
time. Of the boot counts that fit, the newest counts: a lease is over after the second start anyway.
"""

from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import retry_topic

BOOTS = 16
"""Starts of the store that a pop time tells apart. It is at most this many ms too early."""
OF_TOPIC, OF_RETRY = "0", "1"
"""Flags: the message lies in the topic itself, or in the group's retry topic."""
_COUNTER = (1 << 32) - 1
_FIELDS_MIN = 7


class PopStamp(NamedTuple):
    """What a reply says about its lease."""

    pop_time: int
    invisible_ms: int
    revive_qid: int


def stamp_of(lease: int, now_ms: int, invisible_ms: int) -> PopStamp:
    """Return the fields of a reply for a lease of the running store."""
    boot, counter = lease >> 32, lease & _COUNTER
    pop_time = now_ms - (now_ms - boot) % BOOTS
    return PopStamp(pop_time, invisible_ms, counter if counter <= _COUNTER >> 1 else counter - _COUNTER - 1)


def lease_of(pop_time: int, revive_qid: int, boot: int) -> int:
    """Return the lease of these fields, in a store with this boot count."""
    return boot - (boot - pop_time) % BOOTS << 32 | revive_qid & _COUNTER


def extra_info(start_offset: int, stamp: PopStamp, flag: str, broker: str, queue_id: int, offset: int) -> str:
    """Return the POP_CK of a message."""
    return f"{start_offset} {stamp.pop_time} {stamp.invisible_ms} {stamp.revive_qid} {flag} {broker} {queue_id} {offset}"


def lease_in(text: str, boot: int) -> int:
    """Return the lease of an extra info. Raises RefusedRequest (MESSAGE_ILLEGAL)."""
    fields = text.split(" ")
    try:
        if len(fields) < _FIELDS_MIN:
            raise ValueError(text)
        return lease_of(int(fields[1]), int(fields[3]), boot)
    except ValueError as error:
        raise RefusedRequest(
            ResponseCode.MESSAGE_ILLEGAL, f"the extraInfo {text[:100]!r} is not that of a pop"
        ) from error


def split_retry(topic: str, group: str) -> tuple[str, bool]:
    """Return the topic behind a name that a client acknowledges with, and whether it means the group's retry topic.

    Clients name it `%RETRY%group_topic`, or with flag 2 `%RETRY%group+topic`.
    """
    name = retry_topic(group)
    if topic.startswith((f"{name}_", f"{name}+")):
        return topic[len(name) + 1 :], True
    return topic, False
