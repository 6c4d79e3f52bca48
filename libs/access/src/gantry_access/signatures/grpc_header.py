"""The `authorization` header of RocketMQ's gRPC clients. Only the text of `x-mq-date-time` is signed.

`MQv2-HMAC-SHA1 Credential=<user>[/<region>/<service>], SignedHeaders=x-mq-date-time, Signature=<hex HMAC-SHA1>`. C# and Node write
capital hex digits, the others small ones; Go writes `user//Rocketmq`. The Python client sends the header without credentials, too.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.texts import (
    DATE_MISSING,
    HEADER_MALFORMED,
    KEY_VALUE_MALFORMED,
    SIGNATURE_UNREADABLE,
    USERNAME_MISSING,
)

OFFSET_EARLIEST = timedelta(hours=-12)
OFFSET_LATEST = timedelta(hours=14)
"""Java, Python, Go and C# clients send their local time and mark it as UTC, so a right clock may be this far off."""
CLOCK_ERROR_SECONDS = 300.0
"""How far a client's clock may be wrong by itself."""

_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z", re.ASCII)
_RFC_3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:[Zz]|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)


class Claim(NamedTuple):
    """What a gRPC call claims: verify it with `is_signature(claim.signature, keys, claim.signed)`."""

    user: str
    signature: bytes
    signed: bytes
    """The date text, as sent."""


def read_authorization(authorization: str | None, date_time: str | None) -> Claim:
    """Return the claim of a call's metadata. Raises AuthenticationRefused with RocketMQ's text."""
    if not authorization:
        raise AuthenticationRefused(USERNAME_MISSING)
    if not date_time:
        raise AuthenticationRefused(DATE_MISSING)
    _scheme, space, pairs = authorization.partition(" ")
    if not space:
        raise AuthenticationRefused(HEADER_MALFORMED)
    user, signature = "", b""
    for pair in _split(pairs):
        name, equals, value = pair.strip().partition("=")
        if not equals:
            raise AuthenticationRefused(KEY_VALUE_MALFORMED)
        if name == "Credential":
            user = value.partition("/")[0]
        elif name == "Signature":
            signature = _from_hex(value)
    if not user or user.isspace():
        raise AuthenticationRefused(USERNAME_MISSING)
    return Claim(user, signature, date_time.encode(errors="replace"))


def is_fresh(date_time: str, now_seconds: float, error_seconds: float = CLOCK_ERROR_SECONDS) -> bool:
    """Return whether a date text is the current time in some time zone, given the seconds since 1970.

    RocketMQ checks no freshness. This check bounds how long a stolen header works: to a day and a few hours, unless the text
    states its offset. An unreadable text is not fresh.
    """
    read = _read(date_time)
    if read is None:
        return False
    written, has_offset = read
    ahead = (written - datetime.fromtimestamp(now_seconds, UTC)).total_seconds()
    if has_offset:
        return abs(ahead) <= error_seconds
    earliest, latest = OFFSET_EARLIEST.total_seconds(), OFFSET_LATEST.total_seconds()
    return earliest - error_seconds <= ahead <= latest + error_seconds


def _split(pairs: str) -> list[str]:
    """Split at commas as Java does: without the empty texts at the end, but one text for an empty one."""
    return pairs.rstrip(",").split(",") if pairs.strip(",") or not pairs else []


def _from_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as error:
        raise AuthenticationRefused(SIGNATURE_UNREADABLE) from error


def _read(text: str) -> tuple[datetime, bool] | None:
    """Return the time and whether the text states an offset of its own; None for a text of neither format."""
    found = _COMPACT.fullmatch(text) or _RFC_3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(digits) for digits in found.groups()[:6])
    try:
        written = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    if found.lastindex == 6:
        return written, False
    offset = timedelta(hours=int(found[8]), minutes=int(found[9]))
    try:
        return (written + offset if found[7] == "-" else written - offset), True
    except OverflowError:
        return None
