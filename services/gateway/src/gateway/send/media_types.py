"""The media types that the calls accept. Pure.

A page of another origin may send forms and untyped bodies without a preflight. So an untyped body is not JSON, and not a message
unless headers make it one: those need a preflight. The type is never guessed.
"""

from collections.abc import Mapping

from gateway.requests.media_types import unsupported
from gateway.send.cloud_events import PREFIX as EVENT_PREFIX
from gateway.send.raw_messages import PREFIX as MQ_PREFIX

EVENT = b"application/cloudevents+json"
EVENT_BATCH = b"application/cloudevents-batch+json"
_EVENTS = b"application/cloudevents"
_FORMS = frozenset({b"application/x-www-form-urlencoded", b"multipart/form-data"})
_REMEDY = (
    "add the header Content-Type: application/json for messages as JSON, "
    "or Content-Type: application/octet-stream for the raw body of one message"
)


def check_message_type(media_type: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Raise 415 if a body of this type is not a message. Without a type, headers of a message or an event are sufficient."""
    if media_type in _FORMS:
        raise unsupported(f"a form is no message: {_REMEDY}")
    if not media_type and not any(name.startswith((MQ_PREFIX, EVENT_PREFIX)) for name in headers):
        raise unsupported(f"the body has no media type: {_REMEDY}")
    if media_type.startswith(_EVENTS) and media_type not in {EVENT, EVENT_BATCH}:
        raise unsupported(
            f"CloudEvents come as {EVENT.decode()}, {EVENT_BATCH.decode()} or with ce-* headers"
        )
