"""The text of a token: `gantry_`, 43 letters and digits for 32 random bytes, 6 for the CRC32 of what precedes them.

Secret scanners find leaked tokens by `gantry_[0-9A-Za-z]{49}`, and the checksum tells them from other texts without asking us.
"""

from __future__ import annotations

import hashlib
import re
from zlib import crc32

from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.tokens.errors import MalformedToken

TOKEN_PREFIX = "gantry_"  # noqa: S105 - what every token begins with
RANDOM_SIZE = 32

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_CHARS, _CHECKSUM_CHARS = 43, 6
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[0-9A-Za-z]{{{_RANDOM_CHARS + _CHECKSUM_CHARS}}}", re.ASCII)

assert 62**_RANDOM_CHARS > 256**RANDOM_SIZE
assert 62**_CHECKSUM_CHARS > 2**32


def token_text(random: bytes) -> HiddenText:
    """Return a new token. Show it once and keep only its hash. Raises ValueError unless `random` has 32 bytes."""
    if len(random) != RANDOM_SIZE:
        raise ValueError(f"a token is made of {RANDOM_SIZE} random bytes, not {len(random)}")
    body = TOKEN_PREFIX + _base62(int.from_bytes(random), _RANDOM_CHARS)
    return HiddenText(body + _checksum(body))


def token_hash(token: HiddenText) -> bytes:
    """Return the SHA-256 hash under which a token is stored. Raises MalformedToken for a text that is no token.

    A fast hash is enough: 32 random bytes cannot be guessed, unlike a password.
    """
    text = token.reveal()
    if not _TOKEN.fullmatch(text) or text[-_CHECKSUM_CHARS:] != _checksum(text[:-_CHECKSUM_CHARS]):
        raise MalformedToken("the text is not a token")
    return hashlib.sha256(text.encode("ascii")).digest()


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode("ascii")), _CHECKSUM_CHARS)


def _base62(number: int, chars: int) -> str:
    digits: list[str] = []
    for _ in range(chars):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
