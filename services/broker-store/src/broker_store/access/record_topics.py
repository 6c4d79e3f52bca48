"""The topic of the record that a request identifies, for the door: by its position or its offset message id, not by what the request says."""

from collections.abc import Callable, Mapping

from broker_store.log.errors import LogError
from broker_store.ports import LogReader
from gantry_access.model.needs import TOPICS_OF_ALL
from gantry_access.rights.asked import Asked
from gantry_wire.codes import RequestCode
from gantry_wire.errors import MalformedMessageId, MalformedRecord
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.messages.properties import REAL_TOPIC, find_property
from gantry_wire.records.message_record import decode_record


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _of_message_id(text: str) -> int | None:
    try:
        return parse_offset_message_id(text)[2]
    except MalformedMessageId:
        return None


_NAMED: Mapping[int, tuple[str, Callable[[str], int | None]]] = {
    RequestCode.VIEW_MESSAGE_BY_ID: ("offset", _number),
    RequestCode.CONSUMER_SEND_MSG_BACK: ("offset", _number),
    RequestCode.END_TRANSACTION: ("commitLogOffset", _number),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ("msgId", _of_message_id),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: ("msgId", _of_message_id),
}
"""The field that identifies the record, and how it gives the record's position."""
TopicOfRelayed = Callable[[Mapping[str, str], int], str | None]
"""Returns the topic of another broker's half message, by the fields of a decision and its position; None if this broker keeps it."""


class RecordTopics:
    """Reads the topics of records. Only requests of users whom policies decide need it."""

    def __init__(self, log: LogReader, relayed: TopicOfRelayed) -> None:
        """`relayed` knows the half messages of other brokers that clients of this one were asked about."""
        self._log, self._relayed = log, relayed

    def topic_of(self, code: int, asked: Asked) -> str | None:
        """Return the topic of the record; of a delayed or half message the one to which it goes. None if there is no such record.

        Reads one record in the caller's turn.
        """
        named = _NAMED.get(code)
        text = "" if named is None else asked.fields.get(named[0], "")
        position = None if named is None else named[1](text)
        if position is None:
            return None
        if (
            code == RequestCode.END_TRANSACTION
            and (topic := self._relayed(asked.fields, position)) is not None
        ):
            return topic  # the handler relays it: what this store has at that position is another record
        try:
            record = decode_record(self._log.read_record(position), check_crc=False)
        except (LogError, MalformedRecord, OSError):
            return None
        if record.position != position:
            return None
        topic = record.topic.decode(errors="replace")
        if topic in TOPICS_OF_ALL:
            real = find_property(record.properties, REAL_TOPIC.encode())
            return topic if real is None else real.decode(errors="replace")
        return topic
