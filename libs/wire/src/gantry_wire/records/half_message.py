"""Records of transactions: the half message, and the op message that marks a half as decided. Pure."""

from __future__ import annotations

from gantry_wire.messages.properties import GANTRY_OUTCOME, REAL_QUEUE_ID, REAL_TOPIC, TAGS, WAIT
from gantry_wire.records.message_record import decode_record, rebuild_record

OP_TAG = "d"
OP_PROPERTIES = {WAIT: "true", TAGS: OP_TAG}
"""Properties of an op message in RocketMQ. Its body is the half's queue offset, in decimal."""
ROLLED_BACK_OUTCOME, REPLACED_OUTCOME = "rolledBack", "replaced"
ROLLBACK_OP_PROPERTIES = {**OP_PROPERTIES, GANTRY_OUTCOME: ROLLED_BACK_OUTCOME}
"""Properties of the op message of a rollback. Without GANTRY_OUTCOME, an op message that is the only output of a half
means that another copy replaced it."""
REPLACED_OP_PROPERTIES = {**OP_PROPERTIES, GANTRY_OUTCOME: REPLACED_OUTCOME}
"""Properties of the op message that follows the next copy of a half, or the parked one. Without GANTRY_OUTCOME, an op
message that is the last of several outputs means a commit, also when the message before it is damaged."""
_QUEUE_DIGITS_MAX = 9


def sent_message(half: bytes) -> bytes:
    """Return a half's record for a transaction check: in stored layout, with its real topic and queue."""
    record = decode_record(half)
    named = record.readable_properties()
    queue_id = named.get(REAL_QUEUE_ID, "")
    is_number = queue_id.isascii() and queue_id.isdecimal() and len(queue_id) <= _QUEUE_DIGITS_MAX
    topic = named.get(REAL_TOPIC, "").encode()
    return rebuild_record(record._replace(topic=topic, queue_id=int(queue_id) if is_number else 0))


def op_body(offset: int) -> bytes:
    """Return the body of the op message for the half at a queue offset."""
    return b"%d" % offset
