"""The signature of a remoting request, as RocketMQ 4.9 and 5.x clients make it.

The text fields of the request, without `Signature`, are sorted by name; their values are joined without separators, and the body
follows. Code, opaque, flag and remark are not signed. A client up to 4.9.3 signs only the declared fields, so not the
`_UNIQUE_KEY_QUERY` that its query (12) carries. A later client signs every field.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.signing_key import SigningKey, is_signature_text
from gantry_access.texts import USERNAME_MISSING
from gantry_wire.bounded_cache import BoundedCache

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"

_NOT_SIGNED = frozenset({SIGNATURE})
_NOT_SIGNED_UP_TO_4_9_3 = frozenset({SIGNATURE, UNIQUE_KEY_QUERY})
_picks: BoundedCache[tuple[str, ...], Callable[[Mapping[str, str]], Sequence[Any]]] = BoundedCache(256)
"""Takes the signed values in their order from fields with these names: a client repeats its names."""
_NAMES_CHARS_MAX = 1024
"""Names of more characters together are not remembered."""


def claimed_user(fields: Mapping[str, str]) -> str:
    """Return the user that a request claims to come from. Raises AuthenticationRefused if it names none."""
    user = fields.get(ACCESS_KEY, "")
    if not user or user.isspace():
        raise AuthenticationRefused(USERNAME_MISSING)
    return user


def is_signed(fields: Mapping[str, str], body: bytes, keys: Sequence[SigningKey]) -> bool:
    """Return whether one of these keys signed a request. `fields`: all its ext fields, `body`: its bytes as sent.

    `_UNIQUE_KEY_QUERY` may be signed or not, whatever version the request states: no version is signed either.
    """
    signature = fields.get(SIGNATURE, "")
    if is_signature_text(signature, keys, _joined(fields, _NOT_SIGNED), body):
        return True
    if UNIQUE_KEY_QUERY not in fields:
        return False
    return is_signature_text(signature, keys, _joined(fields, _NOT_SIGNED_UP_TO_4_9_3), body)


def join_like(
    fields: Mapping[str, str], varying: Sequence[str]
) -> Callable[[tuple[bytes, ...]], bytes] | None:
    """Return what joins the signed values of requests that differ from one with these fields only in some of them.

    It takes the values of the varying fields, in the order of `varying`, as bytes of UTF-8. None where one request may be signed in two
    ways, and where a varying field is missing or out of order.
    """
    names = sorted(name for name in fields if name not in _NOT_SIGNED)
    if UNIQUE_KEY_QUERY in fields or [name for name in names if name in varying] != list(varying):
        return None
    parts = [
        b"%b" if name in varying else fields[name].encode(errors="replace").replace(b"%", b"%%")
        for name in names
    ]
    return b"".join(parts).__mod__


def sign(
    fields: Mapping[str, str], body: bytes, user: str, key: SigningKey, security_token: str | None = None
) -> dict[str, str]:
    """Return the fields of a request of our own, signed as a current client signs: every field."""
    signed = {name: value for name, value in fields.items() if name != SIGNATURE}
    signed[ACCESS_KEY] = user
    if security_token is not None:
        signed[SECURITY_TOKEN] = security_token
    digest = key.digest(_joined(signed, _NOT_SIGNED), body)
    signed[SIGNATURE] = binascii.b2a_base64(digest, newline=False).decode("ascii")
    return signed


def signed_content(fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes that a current client signs."""
    return _joined(fields, _NOT_SIGNED) + body


def _joined(fields: Mapping[str, str], left_out: frozenset[str]) -> bytes:
    """Join the values in the order of their names. Java's UTF-8 has a question mark for half a surrogate pair."""
    names = tuple(fields)
    pick = _picks.get(names) if left_out is _NOT_SIGNED else None
    if pick is None:
        signed = sorted(name for name in names if name not in left_out)
        if len(signed) < 2:  # itemgetter of one name returns no tuple
            return "".join([fields[name] for name in signed]).encode(errors="replace")
        pick = itemgetter(*signed)
        if left_out is _NOT_SIGNED and sum(map(len, names)) <= _NAMES_CHARS_MAX:
            _picks.keep(names, pick)
    return "".join(pick(fields)).encode(errors="replace")
