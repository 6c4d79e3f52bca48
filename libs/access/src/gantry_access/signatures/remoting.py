"""The signature of a remoting request, as RocketMQ 4.9 and 5.x clients make it.

The text fields of the request, without `Signature`, are sorted by name; their values are joined without separators, and the body
follows. Code, opaque, flag and remark are not signed. A client up to 4.9.3 signs only the declared fields, so not the
`_UNIQUE_KEY_QUERY` that its query (12) carries. A later client signs every field.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.signing_key import SigningKey, is_signature
from gantry_access.texts import USERNAME_MISSING

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"

_NOT_SIGNED = frozenset({SIGNATURE})
_NOT_SIGNED_UP_TO_4_9_3 = frozenset({SIGNATURE, UNIQUE_KEY_QUERY})


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
    signature = _bytes_of(fields.get(SIGNATURE, ""))
    if is_signature(signature, keys, _joined(fields, _NOT_SIGNED), body):
        return True
    if UNIQUE_KEY_QUERY not in fields:
        return False
    return is_signature(signature, keys, _joined(fields, _NOT_SIGNED_UP_TO_4_9_3), body)


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
    text = "".join([fields[name] for name in sorted(fields) if name not in left_out])
    return text.encode(errors="replace")


def _bytes_of(signature: str) -> bytes:
    """Return the bytes of a Base64 text; none for any other text, which equal no signature.

    RocketMQ compares texts. Only the one text that encodes these bytes is accepted here, too.
    """
    try:
        digest = binascii.a2b_base64(signature, strict_mode=True)
    except ValueError:
        return b""
    return digest if binascii.b2a_base64(digest, newline=False).decode("ascii") == signature else b""
