"""Password hashes of people: scrypt (RFC 7914), as `$scrypt$ln=15,r=8,p=3$<salt>$<hash>`, both in Base64 without padding.

One hash takes a few tenths of a second and 32 MiB, on purpose: compute it in a thread, and limit how many run at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import unicodedata
from typing import NamedTuple

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gantry_access.secrets.errors import MalformedPasswordHash
from gantry_access.secrets.hidden_text import HiddenText

SALT_SIZE_MIN = 16
HASH_SIZE = 32
PASSWORD_BYTES_MAX = 1024
HASH_CHARS_MAX = 256
MEMORY_BYTES_MAX = 256 << 20
PARALLEL_MAX = 16

_HASH = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)", re.ASCII
)


class ScryptCost(NamedTuple):
    """The cost of a hash: 2^ln rounds over blocks of 128·r bytes, p times."""

    ln: int = 15
    r: int = 8
    p: int = 3
    """The defaults are OWASP's for 32 MiB."""


COST_DEFAULT = ScryptCost()


def hash_password(password: HiddenText, salt: bytes, cost: ScryptCost = COST_DEFAULT) -> str:
    """Return the hash of a password. `salt`: at least 16 random bytes. Raises ValueError for a short salt or a wrong password size."""
    plain = _bytes_of(password)
    if not 0 < len(plain) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes, this one {len(plain)}")
    if len(salt) < SALT_SIZE_MIN:
        raise ValueError(f"the salt has {len(salt)} bytes, not {SALT_SIZE_MIN} or more")
    if not _is_allowed(cost):
        raise ValueError(f"the cost {cost} is beyond the limits")
    digest = _derive(plain, salt, cost)
    return f"$scrypt$ln={cost.ln},r={cost.r},p={cost.p}${_text(salt)}${_text(digest)}"


def is_password(password: HiddenText, stored: str | None) -> bool:
    """Return whether a password has this hash. Compares in constant time. Raises MalformedPasswordHash.

    With None, for a person that does not exist, the answer is False and takes as long as a hash of the default cost.
    """
    plain = _bytes_of(password)
    if len(plain) > PASSWORD_BYTES_MAX:
        return False
    if stored is None:
        _derive(plain, b"\0" * SALT_SIZE_MIN, COST_DEFAULT)
        return False
    cost, salt, digest = _read(stored)
    return hmac.compare_digest(_derive(plain, salt, cost), digest)


def needs_new_hash(stored: str, cost: ScryptCost = COST_DEFAULT) -> bool:
    """Return whether a hash has another cost. Hash the password again at the next login. Raises MalformedPasswordHash."""
    return _read(stored)[0] != cost


def _derive(plain: bytes, salt: bytes, cost: ScryptCost) -> bytes:
    return Scrypt(salt=salt, length=HASH_SIZE, n=1 << cost.ln, r=cost.r, p=cost.p).derive(plain)


def _bytes_of(password: HiddenText) -> bytes:
    """Return one form of what keyboards encode in several (Unicode NFC, as RFC 8265 has it)."""
    return unicodedata.normalize("NFC", password.reveal()).encode(errors="surrogatepass")


def _read(stored: str) -> tuple[ScryptCost, bytes, bytes]:
    found = _HASH.fullmatch(stored) if len(stored) <= HASH_CHARS_MAX else None
    if found is None:
        raise MalformedPasswordHash("the text is not a password hash")
    cost = ScryptCost(int(found[1]), int(found[2]), int(found[3]))
    try:
        salt, digest = (
            base64.b64decode(part + "=" * (-len(part) % 4), validate=True) for part in found.groups()[3:]
        )
    except binascii.Error as error:
        raise MalformedPasswordHash("the password hash is not Base64") from error
    if not _is_allowed(cost) or len(digest) != HASH_SIZE or len(salt) < SALT_SIZE_MIN:
        raise MalformedPasswordHash("the cost or a size of the password hash is beyond the limits")
    return cost, salt, digest


def _is_allowed(cost: ScryptCost) -> bool:
    """Bound what a stored text can make a process allocate and compute."""
    is_positive = cost.ln > 0 and cost.r > 0 and 0 < cost.p <= PARALLEL_MAX
    return is_positive and 128 * cost.r << cost.ln <= MEMORY_BYTES_MAX


def _text(data: bytes) -> str:
    return base64.b64encode(data).rstrip(b"=").decode("ascii")
