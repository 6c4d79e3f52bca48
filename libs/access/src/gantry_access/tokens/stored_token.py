"""A token as stored: by hash, with its user, scope and end."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.tokens.errors import TokenExpired, TokenUnknown
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.token_text import token_hash

HASH_SIZE = 32


@dataclass(frozen=True, slots=True)
class StoredToken:
    """One token. Times are milliseconds since 1970."""

    id: str
    """A name for lists, logs and revocation; not secret."""
    user: str
    hash: bytes = field(repr=False)
    scope: tuple[ScopeEntry, ...]
    created_ms: int
    expires_ms: int

    def __post_init__(self) -> None:
        if len(self.hash) != HASH_SIZE:
            raise ValueError(f"the hash of token {self.id!r} has {len(self.hash)} bytes, not {HASH_SIZE}")
        if self.expires_ms <= self.created_ms:
            raise ValueError(f"token {self.id!r} ends before it begins")


def verify_token(token: HiddenText, stored: StoredToken | None, now_ms: int) -> StoredToken:
    """Return the stored token if `token` is it and has not expired. `stored`: the one found by `token_hash`, or None.

    Compares in constant time. Raises MalformedToken, TokenUnknown or TokenExpired.
    """
    digest = token_hash(token)
    if stored is None or not hmac.compare_digest(digest, stored.hash):
        raise TokenUnknown("no such token")
    if now_ms >= stored.expires_ms:
        raise TokenExpired(f"token {stored.id!r} has expired")
    return stored
