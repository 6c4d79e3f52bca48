"""Checks a JWT (RFC 7519): signed by a published key of the issuer, for this audience, at this time; names its user in a claim.

The algorithm is one that the key allows, so `none` and HMAC with a public key never verify. Times come from our clock, not from PyJWT's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Protocol

import jwt
from jwt.types import Options

from gantry_access.errors import IllegalUser
from gantry_access.model.users import check_user_name
from gantry_guard.jwt_bearer.key_set import KeySet
from gantry_guard.jwt_bearer.outcome import JwtRefused, VerifiedJwt

TOKEN_CHARS_MAX = 8192
LEEWAY_MS = 30_000
"""How far the clocks of the issuer and of this machine may differ."""
TRIES_MAX = 8
"""Signatures that are verified for a token without a key id."""
_OPTIONS: Final[Options] = {
    "require": ["exp", "iss", "aud"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


@dataclass(frozen=True, slots=True)
class JwtRules:
    """What every token must say."""

    issuer: str
    audience: str
    user_claim: str
    """The claim with the name of the user."""


class Published(Protocol):
    """The keys that an issuer publishes, as they are read again and again."""

    @property
    def keys(self) -> KeySet:
        """The latest good ones."""
        ...

    @property
    def version(self) -> int:
        """Grows with every other set."""
        ...


class JwtVerifier:
    """Checks the tokens of one issuer."""

    def __init__(self, rules: JwtRules, published: Published) -> None:
        self._rules, self._published = rules, published

    @property
    def version(self) -> int:
        """That of the published keys: a token that was good may be bad under the next ones."""
        return self._published.version

    def verify(self, text: str, now_ms: int) -> VerifiedJwt:
        """Return what a token says at a wall time. Raises JwtRefused."""
        if len(text) > TOKEN_CHARS_MAX:
            raise JwtRefused(f"the token is over {TOKEN_CHARS_MAX} characters")
        claims = self._signed_claims(text)
        ends_ms = _ms(claims, "exp") + LEEWAY_MS
        if now_ms >= ends_ms:
            raise JwtRefused("the token has expired")
        for name in ("nbf", "iat"):
            if name in claims and _ms(claims, name) > now_ms + LEEWAY_MS:
                raise JwtRefused(f"the token's time {name} lies ahead")
        user = claims.get(self._rules.user_claim)
        if not isinstance(user, str):
            raise JwtRefused(f"the token has no text in the claim {self._rules.user_claim}")
        try:
            check_user_name(user)
        except IllegalUser as error:
            raise JwtRefused(str(error)) from error
        return VerifiedJwt(user, ends_ms)

    def _signed_claims(self, text: str) -> Mapping[str, Any]:
        """Return the claims, once a published key has verified the signature, and issuer and audience are ours."""
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise JwtRefused("the text is no JWT") from error
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or "crit" in header:
            raise JwtRefused("the token's header is not understood")
        why = f"no published key {key_id!r} verifies {algorithm[:16]!r}"
        for tried, key in enumerate(self._published.keys.candidates(key_id, algorithm)):
            if tried >= TRIES_MAX:
                break
            try:
                return jwt.decode(
                    text,
                    key.key,
                    algorithms=[algorithm],
                    issuer=self._rules.issuer,
                    audience=self._rules.audience,
                    options=_OPTIONS,
                )
            except (jwt.PyJWTError, ValueError, RecursionError) as error:
                why = str(error)
        raise JwtRefused(f"the token is not verified: {why}")


def _ms(claims: Mapping[str, Any], name: str) -> int:
    """Return a time of a token in ms."""
    value = claims.get(name)
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and isfinite(value * 1000):
            return int(value * 1000)
    except OverflowError:  # more digits than a float has
        pass
    raise JwtRefused(f"the token's time {name} is no number")
