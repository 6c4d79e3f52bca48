"""RocketMQ 5.3.3's checks of END_TRANSACTION (37) against the half that it names. Pure."""

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.messages import EndTransactionHeader
from gantry_wire.messages.properties import CHECK_IMMUNITY_TIME, PRODUCER_GROUP, UNIQ_KEY
from gantry_wire.names import HALF_TOPIC
from gantry_wire.records.message_record import Record

TIMEOUT_MS = 6_000
"""transactionTimeOut: a shorter immunity is ignored."""
_DIGITS_MAX = 15
_HALF_TOPIC = HALF_TOPIC.encode()


def not_found() -> RefusedRequest:
    """Return the refusal of a request that names no half message."""
    return RefusedRequest(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")


def check_end(header: EndTransactionHeader, record: Record, named: dict[str, str], now_ms: int) -> None:
    """Raise RefusedRequest unless the request may decide about this record.

    Stricter than RocketMQ: the record must be a half of the client's transaction. Two brokers may hold
    halves of one producer group at equal positions.
    """
    if record.topic != _HALF_TOPIC or not _is_meant(header, record, named):
        raise not_found()
    if not header.from_transaction_check and _is_over_immunity(record, named, now_ms):
        raise RefusedRequest(
            ResponseCode.ILLEGAL_OPERATION,
            "its check immunity time is over: decide when the next check arrives",
        )
    if named.get(PRODUCER_GROUP) != header.producer_group:
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if record.queue_offset != header.tran_state_table_offset:
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if record.position != header.commit_log_offset:
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")


def _is_meant(header: EndTransactionHeader, record: Record, named: dict[str, str]) -> bool:
    """Whether one of the request's ids is the half's, or it has none. Clients put either kind into either field."""
    key = named.get(UNIQ_KEY)
    if key and key in (header.transaction_id, header.msg_id):
        return True
    given = {header.transaction_id, header.msg_id} - {None, ""}
    return not given or record.message_id in given


def _is_over_immunity(record: Record, named: dict[str, str], now_ms: int) -> bool:
    text = named.get(CHECK_IMMUNITY_TIME)
    if not text:
        return False
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    immunity_ms = max(int(text) * 1000 if is_number else 0, TIMEOUT_MS)
    return now_ms - record.born_timestamp > immunity_ms
