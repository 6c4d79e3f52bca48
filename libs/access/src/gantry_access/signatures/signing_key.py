"""HMAC-SHA1 with one secret, prepared once. Both of RocketMQ's signatures are made with it."""

from __future__ import annotations

import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence

_BLOCK_SIZE = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class SigningKey:
    """One secret, ready to sign. Keeps two hash states (RFC 2104), not the secret, so its repr cannot show it.

    Copying the states takes a quarter of the time of `hmac.digest`, which prepares the key at every call.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: str) -> None:
        """Prepare a secret. Raises ValueError for an empty one: RocketMQ's clients refuse to sign with it."""
        key = secret.encode(errors="replace")  # as Java's UTF-8; an error would carry the secret
        if not key:
            raise ValueError("a secret key is empty")
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        block = key.ljust(_BLOCK_SIZE, b"\0")
        self._inner = hashlib.sha1(block.translate(_INNER), usedforsecurity=False)
        self._outer = hashlib.sha1(block.translate(_OUTER), usedforsecurity=False)

    def digest(self, *parts: bytes) -> bytes:
        """Return the 20 bytes of HMAC-SHA1 over the parts, joined."""
        inner = self._inner.copy()
        for part in parts:
            inner.update(part)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def is_same(self, other: SigningKey) -> bool:
        """Whether both were made of one secret. Compares in constant time."""
        return self is other or hmac.compare_digest(self.digest(), other.digest())


_NOBODY = (SigningKey("the key of users that do not exist"),)


def is_signature(signature: bytes, keys: Iterable[SigningKey], *parts: bytes) -> bool:
    """Return whether one of a user's live keys made this signature. Compares with all of them, each in constant time.

    Without keys the answer is False and takes as long as with one, so time does not tell which users exist.
    """
    live = tuple(keys)
    is_equal = False
    for key in live or _NOBODY:
        is_equal |= hmac.compare_digest(key.digest(*parts), signature)
    return is_equal and bool(live)


def is_signature_text(signature: str, keys: Sequence[SigningKey], *parts: bytes) -> bool:
    """As `is_signature`, for a signature in Base64. RocketMQ compares texts: only the one text that encodes the bytes is accepted."""
    return is_signature_of(signature.encode(errors="replace"), keys, *parts)


def is_signature_of(text: bytes, keys: Sequence[SigningKey], *parts: bytes) -> bool:
    """As `is_signature_text`, for the bytes of the text."""
    is_equal = False
    for key in keys or _NOBODY:
        expected = binascii.b2a_base64(key.digest(*parts), newline=False)
        is_equal |= hmac.compare_digest(expected, text)
    return is_equal and bool(keys)
