"""The door of a gRPC port: who calls, what the method requires, and whether the caller may.

RocketMQ's clients sign the time of a call (MQv2-HMAC-SHA1). What HTTP's door takes proves a caller here, too: a token, a secret, a JWT, a
certificate. Rights, modes and the audit log are those of HTTP's door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gantry_access.entries.table import AccessTable
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.grpc_table import GrpcAsked, requirements_of_method
from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.grpc_header import Claim, is_fresh, read_authorization
from gantry_access.signatures.signing_key import is_signature
from gantry_access.texts import CREDENTIALS_WRONG, USERNAME_MISSING
from gantry_chassis.http.authorizing import Denial
from gantry_guard.audit import Asked as Audited
from gantry_guard.failures import FailureLimits
from gantry_guard.http_callers import PERMITTED_CALLER, Caller
from gantry_guard.http_door import HttpDoor

SIGNED: Final = b"mqv2-hmac-sha1"
"""The scheme of a signature, in small letters."""
_AUTHORIZATION, _DATE = b"authorization", b"x-mq-date-time"
_WRONG = Denial(401, CREDENTIALS_WRONG)
STALE: Final = "the time in x-mq-date-time is not now, in any time zone: set the client's clock."


class GrpcDoor:
    """Decides about the calls of one port."""

    def __init__(
        self, http: HttpDoor, table: AccessTable, failures: FailureLimits, now_ms: Callable[[], int]
    ) -> None:
        """`http` knows all callers but those that sign, and decides. `now_ms` is wall time."""
        self._http, self._table, self._failures, self._now_ms = http, table, failures, now_ms

    @property
    def versions(self) -> tuple[int, int]:
        """The versions of the table and of the keys of JWT: a call that waited is decided again after another one."""
        return self._http.versions

    def admit(
        self, method: str, asked: GrpcAsked, headers: Mapping[bytes, bytes], address: str, name: str
    ) -> Caller | Denial:
        """Return the caller of an admitted call of this method, or why it is refused. `name`: that in the connection's certificate."""
        request = f"gRPC {method}"
        caller = self._caller_of(headers, address, name, request)
        if isinstance(caller, Denial):
            return caller
        try:
            needed = requirements_of_method(method, asked)
        except RightsRefused as refused:
            audited = Audited(caller.user, address, request, way=caller.proof)
            denial = self._http.denied(caller, audited, "unreadable", Denial(403, refused.remark))
            return denial or caller
        return self._http.decide(caller, request, needed, address) or caller

    def _caller_of(
        self, headers: Mapping[bytes, bytes], address: str, name: str, request: str
    ) -> Caller | Denial:
        header = headers.get(_AUTHORIZATION, b"")
        if header.partition(b" ")[0].lower() != SIGNED:
            return self._http.caller_named(headers, address, name, request)
        if not self._table.is_complete:
            return self._http.not_read_yet(address, request) or PERMITTED_CALLER
        date = headers.get(_DATE, b"").decode("latin-1")
        try:
            claim = read_authorization(header.decode("latin-1"), date)
        except AuthenticationRefused as refused:
            if (
                refused.remark == USERNAME_MISSING
            ):  # Python's client without credentials sends the header, too
                without = {key: value for key, value in headers.items() if key != _AUTHORIZATION}
                return self._http.caller_named(without, address, name, request)
            user, reason, denial = "", "malformed_credentials", Denial(401, refused.remark)
        else:
            reason, denial = self._refusal(claim, date, address)
            if not reason:
                return Caller(claim.user, "signature")
            user = claim.user
        return self._http.denied(None, Audited(user, address, request), reason, denial) or PERMITTED_CALLER

    def _refusal(self, claim: Claim, date: str, address: str) -> tuple[str, Denial]:
        """Return why a claim proves nothing; an empty reason if it proves its user."""
        user = claim.user
        if self._failures.is_paused(user, address):
            return "too_many_failures", _WRONG
        if not is_signature(claim.signature, self._table.signing_keys(user), claim.signed):
            self._failures.failed(user, address)
            return "wrong_signature", _WRONG
        self._failures.succeeded(user, address)
        return (
            ("", _WRONG) if is_fresh(date, self._now_ms() / 1000) else ("stale_signature", Denial(401, STALE))
        )
