"""What a verified JWT says, and the refusal of one. Needs no PyJWT: services without JWT have none."""

from __future__ import annotations

from typing import NamedTuple


class JwtRefused(Exception):
    """A JWT gives no access. Answer 401; the words are for the audit log, not for the client."""


class VerifiedJwt(NamedTuple):
    """What a token says."""

    user: str
    ends_ms: int
    """Wall time from which on it is refused."""
