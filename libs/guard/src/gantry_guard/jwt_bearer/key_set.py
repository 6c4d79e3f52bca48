"""The keys that an identity provider publishes as a JWK set (RFC 7517), each bound to the algorithms that it may verify.

A token names an algorithm, but never chooses how a key is used: an RSA key verifies RSA signatures alone. Keys for HMAC and private keys
are not read, so nobody can sign with what is published.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

KEYS_MAX = 64
SET_BYTES_MAX = 256 * 1024
RSA_BITS_MIN = 2048
"""RFC 7518, section 3.3."""

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
_PUBLIC_FIELDS: Final = ("kty", "crv", "n", "e", "x", "y")


class MalformedKeySet(Exception):
    """A text is no JWK set, or has no key that can verify a token."""


class PublishedKey(NamedTuple):
    """One public key."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any
    """As `cryptography` holds it."""


class _Jwk(msgspec.Struct, kw_only=True):
    kty: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    crv: str | None = None
    n: str | None = None
    e: str | None = None
    x: str | None = None
    y: str | None = None


class _JwkSet(msgspec.Struct):
    keys: list[msgspec.Raw]


class KeySet:
    """All keys of a provider that verify tokens."""

    def __init__(self, keys: tuple[PublishedKey, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Return the keys of a JWK set; others in it are left out. Raises MalformedKeySet if none is left."""
        if len(data) > SET_BYTES_MAX:
            raise MalformedKeySet(f"the JWK set is over {SET_BYTES_MAX} bytes")
        try:
            found = msgspec.json.decode(data, type=_JwkSet)
        except (ValueError, RecursionError) as error:
            raise MalformedKeySet(f"the text is no JWK set: {error}") from error
        if len(found.keys) > KEYS_MAX:
            raise MalformedKeySet(f"the JWK set has {len(found.keys)} keys, the limit is {KEYS_MAX}")
        keys = tuple(key for raw in found.keys if (key := _key_of(raw)) is not None)
        if not keys:
            raise MalformedKeySet(
                "the JWK set has no key for signatures: RSA with 2048 bits or more, P-256, P-384, P-521 or Ed25519"
            )
        return cls(keys)

    def candidates(self, key_id: str | None, algorithm: str) -> Iterator[PublishedKey]:
        """Yield the keys that may have signed a token that names these two."""
        for key in self._keys:
            if algorithm in key.algorithms and key_id in (None, key.key_id):
                yield key


def _key_of(raw: msgspec.Raw) -> PublishedKey | None:
    """Return the key of a JWK; None if it is not one for our signatures."""
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
    except (ValueError, RecursionError):
        return None
    allowed = _algorithms(jwk)
    if jwk.use not in (None, "sig") or not allowed:
        return None
    public = {name: value for name in _PUBLIC_FIELDS if (value := getattr(jwk, name)) is not None}
    try:
        key = jwt.PyJWK(public, allowed[0]).key
    except (jwt.PyJWTError, ValueError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < RSA_BITS_MIN:
        return None
    return PublishedKey(jwk.kid, allowed, key)


def _algorithms(jwk: _Jwk) -> tuple[str, ...]:
    """Return the algorithms of a key by its type; only the one that it names, if it names one."""
    own = _RSA if jwk.kty == "RSA" else ()
    if (jwk.kty, jwk.crv) == ("OKP", "Ed25519") or (jwk.kty == "EC" and jwk.crv in _BY_CURVE):
        own = (_BY_CURVE[jwk.crv or ""],) if (jwk.kty == "OKP") == (jwk.crv == "Ed25519") else ()
    return own if jwk.alg is None else tuple(name for name in own if name == jwk.alg)
