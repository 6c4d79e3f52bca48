"""Page tokens of lists merged from several brokers: where each broker continues. Opaque to clients. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from gateway.http.problems import invalid

MARK_CHARS_MAX = 8192
Marks = dict[str, str | None]
"""Each broker's own token; None if it has no more. A broker that is missing starts at the beginning."""
_decode = msgspec.json.Decoder(Marks).decode


def read_marks(text: str, field: str = "after") -> Marks:
    """Return the broker tokens of a page token; raise 400 for an invalid one."""
    if not text:
        return {}
    try:
        return _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError) as error:
        raise invalid(field, f"{field} is no mark of a page: take `next` of the page before") from error


def write_marks(marks: Marks) -> str | None:
    """Return the token of the next page; None if no broker has more."""
    if all(mark is None for mark in marks.values()):
        return None
    return urlsafe_b64encode(msgspec.json.encode(marks)).rstrip(b"=").decode()
