"""Marks of pages that are put together from several brokers: where each of them goes on. Opaque to clients. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from gateway.http.problems import invalid

MARK_CHARS_MAX = 8192
Marks = dict[str, str | None]
"""By broker: its own mark, None where it has no more. A broker that is not in it begins."""
_decode = msgspec.json.Decoder(Marks).decode


def read_marks(text: str, field: str = "after") -> Marks:
    """Return the marks of a page; 400 for what is none."""
    if not text:
        return {}
    try:
        return _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.DecodeError) as error:
        raise invalid(field, f"{field} is no mark of a page: take `next` of the page before") from error


def write_marks(marks: Marks) -> str | None:
    """Return the mark of the next page; None where no broker has more."""
    if all(mark is None for mark in marks.values()):
        return None
    return urlsafe_b64encode(msgspec.json.encode(marks)).rstrip(b"=").decode()
