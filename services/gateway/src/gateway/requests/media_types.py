"""The media type of a request's body. Pure."""

from collections.abc import Mapping

from gateway.http.problems import Problem

JSON_TYPE = b"application/json"


def media_type_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the media type of a body, without parameters."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def check_json_type(headers: Mapping[bytes, bytes]) -> None:
    """Raise 415 unless the body is declared as JSON."""
    media_type = media_type_of(headers)
    if media_type != JSON_TYPE and not media_type.endswith(b"+json"):
        raise unsupported("this call takes JSON: add the header Content-Type: application/json")


def unsupported(detail: str) -> Problem:
    """Return 415 for a media type."""
    return Problem(415, "UNSUPPORTED_MEDIA_TYPE", detail, field="Content-Type")
