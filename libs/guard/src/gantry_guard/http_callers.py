"""Who calls an HTTP port: read from the header `Authorization`, by a token, by a secret of a user, or by a JWT; without it, by a certificate.

What was verified is kept by the hash of the header, until any entry of the table changes; its end is checked at every call.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol, Self

from gantry_access.entries.table import AccessTable
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.signatures.signing_key import SigningKey, is_signature
from gantry_access.tokens.errors import TokenRefused
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import verify_token
from gantry_access.tokens.token_text import TOKEN_PREFIX, token_hash
from gantry_chassis.http.web_pages import is_of_another_origin
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.failures import FailureLimits
from gantry_guard.jwt_bearer.outcome import JwtRefused, VerifiedJwt
from gantry_wire.bounded_cache import BoundedCache

KNOWN_MAX = 10_000
"""Headers that are kept as verified."""
HEADER_BYTES_MAX = 10_000
_PROBE = b"gantry http"
"""What two keys sign to be compared."""


class Caller(NamedTuple):
    """The user of a call, and what limits it further."""

    user: str
    way: Literal["token", "secret", "jwt", "certificate", "signature", "inner", "permitted"]
    token_id: str = ""
    scope: tuple[ScopeEntry, ...] | None = None
    """None: all that the user may do."""
    ends_ms: int | None = None
    """Wall time from which on it gives no access; None: the user's own."""

    @property
    def is_permitted(self) -> bool:
        """Whether it proves no user, and the mode of the process lets it pass nevertheless."""
        return self.way == "permitted"

    @property
    def proof(self) -> str:
        """How it proved its user, for the audit log."""
        return "" if self.is_permitted else self.way


INNER_CALLER = Caller("", "inner")
"""One of Gantry's own services."""
PERMITTED_CALLER = Caller("", "permitted")
"""A client that proves no user, where the mode of the process is permissive."""


class CallerRefused(Exception):
    """A header names no caller. The words are for the audit log, not for the client."""

    def __init__(self, user: str, reason: str) -> None:
        """`user` is the name that the header claims, if any; `reason` a label of counters."""
        super().__init__(reason)
        self.user, self.reason = user, reason


class NoHeader(CallerRefused):
    """The call has no header `Authorization`."""


class JwtCheck(Protocol):
    """Checks a JWT."""

    @property
    def version(self) -> int:
        """Changes when a token that was good may be bad."""
        ...

    def verify(self, text: str, now_ms: int) -> VerifiedJwt:
        """Return what a token says. Raises JwtRefused."""
        ...


class Callers:
    """Reads callers from headers."""

    def __init__(
        self,
        table: AccessTable,
        failures: FailureLimits,
        now_ms: Callable[[], int],
        jwt: JwtCheck | None,
        certificates: CertificateUsers,
    ) -> None:
        """`now_ms` is wall time. Without `jwt`, no JWT is accepted."""
        self._table, self._failures, self._now_ms, self._jwt = table, failures, now_ms, jwt
        self._certificates = certificates
        self._known: BoundedCache[bytes, Caller] = BoundedCache(KNOWN_MAX)
        self._known_at = (-1, -1)
        """The versions of the table and of the keys of JWT to which `_known` belongs."""

    @property
    def versions(self) -> tuple[int, int]:
        """The versions of the table and of the keys of JWT: what was verified or decided before another one does not count."""
        return self._table.version, 0 if self._jwt is None else self._jwt.version

    def known(self, digest: bytes) -> Caller | None:
        """Return the caller of a header that was verified, by the hash of the header; None if it has to be verified (again)."""
        at = self.versions
        if at != self._known_at:
            self._known, self._known_at = BoundedCache(KNOWN_MAX), at
            return None
        found = self._known.get(digest)
        if found is None or (found.ends_ms is not None and self._now_ms() >= found.ends_ms):
            return None
        return found

    def caller_of(self, header: bytes | None, address: str) -> Caller:
        """Return the caller that a header proves. Raises CallerRefused, and NoHeader without one."""
        if not header:
            raise NoHeader("", "no_credentials")
        digest = digest_of(header)
        found = self.known(digest)
        if found is None:
            found = self._verified(header, address)
            self._known.keep(digest, found)
        return found

    def of_certificate(self, name: str, headers: Mapping[bytes, bytes]) -> Caller:
        """Return the user of the name in a connection's verified certificate, for a call without the header. Raises NoHeader."""
        if not name or not self._certificates.is_on:
            raise NoHeader("", "no_credentials")
        if not self._certificates.is_user(name):
            raise NoHeader(name, "unknown_certificate")
        if is_of_another_origin(headers):
            raise NoHeader(name, "another_origin")
        return Caller(name, "certificate")

    def _verified(self, header: bytes, address: str) -> Caller:
        scheme, _, given = header.partition(b" ")
        content = given.strip()
        if len(header) > HEADER_BYTES_MAX:
            raise CallerRefused("", "malformed_credentials")
        match scheme.lower():
            case b"bearer":
                return self._of_bearer(content)
            case b"basic":
                return self._of_secret(content, address)
            case _:
                raise CallerRefused("", "malformed_credentials")

    def _of_bearer(self, content: bytes) -> Caller:
        """Find a token, or verify a JWT. Failures are not limited: neither 32 random bytes nor a signature can be guessed.

        A limit could only be one of the address, and would keep out all others behind the same proxy.
        """
        text = content.decode("ascii", "replace")
        if text.startswith(TOKEN_PREFIX) or self._jwt is None:
            return self._of_token(HiddenText(text))
        try:
            verified = self._jwt.verify(text, self._now_ms())
        except JwtRefused:
            raise CallerRefused("", "wrong_jwt") from None
        if self._table.state.find(verified.user) is None:
            raise CallerRefused(verified.user, "unknown_user")
        return Caller(verified.user, "jwt", ends_ms=verified.ends_ms)

    def _of_token(self, token: HiddenText) -> Caller:
        try:
            stored = verify_token(token, self._table.token(token_hash(token)), self._now_ms())
        except TokenRefused:
            raise CallerRefused("", "wrong_token") from None
        if self._table.state.find(stored.user) is None:
            raise CallerRefused(stored.user, "unknown_user")
        return Caller(stored.user, "token", stored.id, stored.scope, stored.expires_ms)

    def _of_secret(self, content: bytes, address: str) -> Caller:
        """Compare with the live secrets of a user, each in constant time; an unknown user takes as long."""
        try:
            name, colon, secret = base64.b64decode(content, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise CallerRefused("", "malformed_credentials") from None
        if not colon or not name or not secret:
            raise CallerRefused("", "malformed_credentials")
        with _Attempt(self._failures, name, address) as attempt:
            if not is_signature(SigningKey(secret).digest(_PROBE), self._table.signing_keys(name), _PROBE):
                raise attempt.failed("wrong_secret")
            return Caller(name, "secret")


class _Attempt:
    """One look at credentials; none while there were too many failures."""

    def __init__(self, failures: FailureLimits, user: str, address: str) -> None:
        self._failures, self._user, self._address = failures, user, address

    def __enter__(self) -> Self:
        if self._failures.is_paused(self._user, self._address):
            raise CallerRefused(self._user, "too_many_failures")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self._failures.succeeded(self._user, self._address)

    def failed(self, reason: str) -> CallerRefused:
        """Count the failure, and return its error."""
        self._failures.failed(self._user, self._address)
        return CallerRefused(self._user, reason)


def digest_of(header: bytes) -> bytes:
    """Return the hash by which a header is kept, so that no secret stays in memory."""
    return hashlib.sha256(header).digest()
