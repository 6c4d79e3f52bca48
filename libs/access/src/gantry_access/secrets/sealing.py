"""Encryption of the secrets of users with AES-256-GCM.

A sealed secret is a text: `sealed1.<key id>.<nonce>.<ciphertext and tag>`, the last two in Base64 for URLs without padding. The name of the
user is authenticated with it: a record that is moved to another user does not open.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gantry_access.secrets.errors import MalformedSealedSecret, SealedByUnknownKey, SecretTampered
from gantry_access.secrets.hidden_text import HiddenText

KEY_SIZE = 32
NONCE_SIZE = 12
"""Bytes. Random nonces of this size are safe for 2³² secrets under one key (NIST SP 800-38D)."""
SECRET_BYTES_MAX = 1024
SEALED_CHARS_MAX = 2048

_VERSION = "sealed1"
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TAG_SIZE = 16


class SealingKeys:
    """The keys that open sealed secrets, and the one that seals new ones.

    To rotate: add a key, make it the current one, seal again every secret for which `is_current` is false, remove the old key.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        """`keys`: 32 bytes by key id, from outside the data directory. Raises ValueError for other keys, without showing them."""
        if current not in keys:
            raise ValueError(f"the current key {current!r} is not among the keys")
        for key_id, key in keys.items():
            if not _KEY_ID.fullmatch(key_id):
                raise ValueError(f"the key id {key_id!r} may hold only 1 to 64 letters, digits, - and _")
            if len(key) != KEY_SIZE:
                raise ValueError(f"the key {key_id!r} has {len(key)} bytes, not {KEY_SIZE}")
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = current

    def __repr__(self) -> str:
        return f"SealingKeys({', '.join(sorted(self._ciphers))}; current={self._current})"

    def seal(self, user: str, secret: HiddenText, nonce: bytes) -> str:
        """Return a user's secret, sealed with the current key. `nonce`: 12 random bytes that were never used before.

        Raises ValueError for an empty or overlong secret, and for a nonce of another size.
        """
        plain = secret.encoded()
        if not 0 < len(plain) <= SECRET_BYTES_MAX:
            raise ValueError(f"a secret has 1 to {SECRET_BYTES_MAX} bytes, this one {len(plain)}")
        if len(nonce) != NONCE_SIZE:
            raise ValueError(f"the nonce has {len(nonce)} bytes, not {NONCE_SIZE}")
        sealed = self._ciphers[self._current].encrypt(nonce, plain, _bytes_of(user))
        return ".".join((_VERSION, self._current, _text(nonce), _text(sealed)))

    def open(self, user: str, sealed: str) -> HiddenText:
        """Return a user's secret. Raises MalformedSealedSecret, SealedByUnknownKey or SecretTampered."""
        key_id, nonce, content = _parts(sealed)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SealedByUnknownKey(key_id)
        try:
            plain = cipher.decrypt(nonce, content, _bytes_of(user))
        except InvalidTag as error:
            raise SecretTampered(f"the sealed secret of {user[:64]!r} does not open") from error
        return HiddenText(plain.decode(errors="surrogatepass"))

    def is_current(self, sealed: str) -> bool:
        """Return whether the current key sealed a secret. Raises MalformedSealedSecret."""
        return _parts(sealed)[0] == self._current


def _parts(sealed: str) -> tuple[str, bytes, bytes]:
    parts = sealed.split(".") if len(sealed) <= SEALED_CHARS_MAX else []
    if len(parts) != 4 or parts[0] != _VERSION or not _KEY_ID.fullmatch(parts[1]):
        raise MalformedSealedSecret("the text is not a sealed secret")
    nonce, content = _bytes(parts[2]), _bytes(parts[3])
    if len(nonce) != NONCE_SIZE or len(content) <= _TAG_SIZE:
        raise MalformedSealedSecret("the sealed secret is cut")
    return parts[1], nonce, content


def _bytes_of(user: str) -> bytes:
    return user.encode(errors="surrogatepass")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    """Decode only the one text that encodes the bytes, so that every changed character is found."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise MalformedSealedSecret("the sealed secret is not Base64") from error
    if _text(data) != text:
        raise MalformedSealedSecret("the sealed secret is not Base64")
    return data
