"""Which media types the calls take. Pure.

A page of another origin may send forms and bodies without a type without asking first, so a body without a type is no JSON, and no message
unless headers make it one: no page sends those without asking first. And what is meant is not guessed.
"""

from collections.abc import Mapping

from gateway.http.problems import Problem
from gateway.send.cloud_events import PREFIX as EVENT_PREFIX
from gateway.send.raw_messages import PREFIX as MQ_PREFIX

JSON_TYPE = b"application/json"
EVENT = b"application/cloudevents+json"
EVENT_BATCH = b"application/cloudevents-batch+json"
_EVENTS = b"application/cloudevents"
_FORMS = frozenset({b"application/x-www-form-urlencoded", b"multipart/form-data"})
_REMEDY = (
    "add the header Content-Type: application/json for messages as JSON, "
    "or Content-Type: application/octet-stream for the raw body of one message"
)


def media_type_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the media type of a body, without parameters."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def check_message_type(media_type: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Raise 415 where a body of this type is no message. The headers of a message or an event say enough where it has no type."""
    if media_type in _FORMS:
        raise _not_taken(f"a form is no message: {_REMEDY}")
    if not media_type and not any(name.startswith((MQ_PREFIX, EVENT_PREFIX)) for name in headers):
        raise _not_taken(f"the body has no media type: {_REMEDY}")
    if media_type.startswith(_EVENTS) and media_type not in {EVENT, EVENT_BATCH}:
        raise _not_taken(f"CloudEvents come as {EVENT.decode()}, {EVENT_BATCH.decode()} or with ce-* headers")


def check_json_type(headers: Mapping[bytes, bytes]) -> None:
    """Raise 415 where a body is not said to be JSON."""
    media_type = media_type_of(headers)
    if media_type != JSON_TYPE and not media_type.endswith(b"+json"):
        raise _not_taken("this call takes JSON: add the header Content-Type: application/json")


def _not_taken(words: str) -> Problem:
    return Problem(415, "UNSUPPORTED_MEDIA_TYPE", words, field="Content-Type")
