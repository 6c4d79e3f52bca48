"""The door of an HTTP port: who calls, what the route requires, and whether the caller may. Serves the gateway, and the ports of the other services.

A refused call gets 401 if it does not prove its user, with one text for an unknown user and a wrong secret; else 403 with RocketMQ's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gantry_access.entries.table import AccessTable
from gantry_access.errors import MalformedNetwork, MalformedResource
from gantry_access.evaluation.refusals import refusal_text
from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.needs import Need, OfRecord, Requirement, is_about_access, is_open, split_of_record
from gantry_access.model.networks import SourceAddress
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.http_table import ABOUT_ACCESS, HttpRoute, requirements_of_route
from gantry_access.rights.rules import Row
from gantry_access.texts import AUTHENTICATION_FAILED, CONTEXT_UNREADABLE, USERNAME_MISSING
from gantry_access.tokens.scope import is_in_scope
from gantry_chassis.http.authorizing import Certificate, Denial, Incoming
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.audit import Asked as Audited
from gantry_guard.audit import requirement_text
from gantry_guard.http_callers import (
    INNER_CALLER,
    PERMITTED_CALLER,
    Caller,
    CallerRefused,
    Callers,
    NoHeader,
    digest_of,
)
from gantry_guard.inner_http import InnerHttp
from gantry_guard.refusals import Refusals
from gantry_guard.validators import REASON as VALIDATOR
from gantry_link.serving.tls_door import certificate_name
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.errors import MalformedBody

CHALLENGES = (
    (b"www-authenticate", b'Bearer realm="gantry"'),
    (b"www-authenticate", b'Basic realm="gantry", charset="UTF-8"'),
)
HOW = "Send the header Authorization: Bearer and a token, or Basic and a user with its secret."
OUT_OF_SCOPE = "out_of_scope"
_WITHOUT_HEADER = Denial(401, f"{USERNAME_MISSING} {HOW}", CHALLENGES)
_WRONG = Denial(401, AUTHENTICATION_FAILED, CHALLENGES)
_ADDRESSES_MAX = 4096
_NEVER_MS = 2**63
_NOWHERE = SourceAddress(0, 0)
"""A client without an IP address. No network has it."""
_AUTHORIZATION = b"authorization"


class Admission:
    """An admitted call. What its id identifies is checked once its topic is known, before anything is shown or changed."""

    __slots__ = ("_decide", "_is_named", "_records", "caller")

    def __init__(
        self,
        caller: Caller | None,
        records: Sequence[OfRecord],
        decide: Callable[[Sequence[Requirement]], Denial | None],
        *,
        is_named: bool,
    ) -> None:
        """`caller` is None for a call that was admitted by its head; `decide` decides for it.

        `is_named`: the call names a topic besides the record, and its right to that topic was checked.
        """
        self.caller, self._records, self._decide, self._is_named = caller, records, decide, is_named

    def of_record(self, topic: str) -> Denial | None:
        """Return why a record of this topic is refused, in the words for one that does not exist: they name no topic."""
        if not self._records:
            return None
        try:
            needed = [one.on(topic) for one in self._records]
        except MalformedResource:
            return Denial(403, CONTEXT_UNREADABLE)
        denial = self._decide(needed)
        return None if denial is None else self._decide(self._records) or denial

    def of_unread_record(self) -> Denial | None:
        """Return why a record is refused whose topic is not known before the request acts on it, or that does not exist.

        The call reaches only records of the topic that it names, or else those of any topic: so nobody without a right learns which exist.
        """
        return self._decide(self._records) if self._records and not self._is_named else None

    def also(self, needed: Sequence[Requirement]) -> Denial | None:
        """Return why something more is refused that the call turned out to need."""
        return self._decide(needed)


def _undecided(_needed: Sequence[Requirement]) -> Denial:
    return Denial(403, CONTEXT_UNREADABLE)


ADMITTED = Admission(None, (), _undecided, is_named=False)
"""Of a call that was admitted by its known head. It identifies no record, and nothing more is granted."""


class FastPass:
    """All calls with one head: the hash of their credentials, what they require, and the latest decision about them."""

    __slots__ = ("allowed", "digest", "needed", "request")

    def __init__(self, digest: bytes, request: str, needed: tuple[Requirement, ...]) -> None:
        self.digest, self.request, self.needed = digest, request, needed
        self.allowed: _Allowed | None = None


class _Allowed(NamedTuple):
    """Calls with one head from one address are allowed until any entry changes, or a time is over."""

    versions: tuple[int, int]
    address: str
    ends_ms: int
    asked: Audited
    verdict: Verdict


class HttpDoor:
    """Decides about the calls of one port."""

    def __init__(
        self,
        rows: Mapping[HttpRoute, Row],
        table: AccessTable,
        cluster: str,
        callers: Callers,
        inner: InnerHttp,
        refusals: Refusals,
        now_ms: Callable[[], int],
        *,
        needs_token_when_off: bool = False,
    ) -> None:
        """`rows` are those of the port, by route. `cluster` is the one whose rights count here. `now_ms` is wall time.

        `needs_token_when_off`: without access control the port asks for a token, so a user without a right is refused in the permissive
        mode, too.
        """
        self._rows, self._table, self._cluster = rows, table, cluster
        self._open = frozenset(route for route, row in rows.items() if row.is_open)
        self._of_bodies = frozenset(route for route, row in rows.items() if row.fields_read is None)
        self._about_access = frozenset(map(" ".join, ABOUT_ACCESS))
        self._callers, self._inner, self._now_ms = callers, inner, now_ms
        self._refusals, self._audit = refusals, refusals.audit
        self._needs_token_when_off = needs_token_when_off
        self._sources: BoundedCache[str, SourceAddress] = BoundedCache(_ADDRESSES_MAX)

    # The chassis' Authorizer

    def demand_routes(self, routes: Iterable[HttpRoute]) -> None:
        """Raise StartRefused if a route has no row of rights."""
        missing = sorted(set(routes) - self._rows.keys())
        if missing:
            shown = ", ".join(" ".join(route) for route in missing)
            raise StartRefused(f"no row of rights for {shown}: add it to gantry_access.rights.http_table")

    def admits_unknown(
        self, headers: Mapping[bytes, bytes], address: str, certificate: Certificate | None
    ) -> Denial | None:
        """Return why a call of a path that does not exist gets no 404: only users learn which paths there are."""
        found = self.caller_of(headers, address, certificate, "unknown path")
        return found if isinstance(found, Denial) else None

    def authorize(self, incoming: Incoming) -> Denial | None:
        """Return why a call is refused. A record that it identifies counts as one of any topic.

        A route whose rights depend on the body admits nobody here: its body is not read yet.
        """
        route = (incoming.method, incoming.path_template)
        if self.is_open(route):
            return None
        caller = self.caller_of(incoming.headers, incoming.address, incoming.certificate, " ".join(route))
        if isinstance(caller, Denial):
            return caller
        fields = {**incoming.query, **incoming.path_params}
        try:
            found = self.admit(caller, route, fields, b"", incoming.address)
        except MalformedBody as error:
            return Denial(400, str(error))
        return found if isinstance(found, Denial) else found.of_unread_record()

    # In steps, for a port that knows more

    @property
    def versions(self) -> tuple[int, int]:
        """The versions of the table and of the keys of JWT: a call that waited is decided again after another one."""
        return self._callers.versions

    def is_still(self, caller: Caller, since: tuple[int, int]) -> bool:
        """Whether what proved a caller at these versions proves it now: nothing has changed, and it has not ended."""
        return self.versions == since and (caller.ends_ms is None or self._now_ms() < caller.ends_ms)

    def is_open(self, route: HttpRoute) -> bool:
        """Whether a route needs no user."""
        return route in self._open

    def reads_body(self, route: HttpRoute) -> bool:
        """Whether the rights of a route depend on the body of a call."""
        return route in self._of_bodies

    def caller_of(
        self, headers: Mapping[bytes, bytes], address: str, certificate: Certificate | None, request: str
    ) -> Caller | Denial:
        """Return the caller of a call, as `caller_named` with the name in its verified `certificate`."""
        return self.caller_named(headers, address, certificate_name(certificate), request)

    def caller_named(
        self, headers: Mapping[bytes, bytes], address: str, name: str, request: str
    ) -> Caller | Denial:
        """Return the caller of a call, or why it is refused. Before the first entries of a store were read it is 503.

        A header `Authorization` alone decides about a call that has one. Without it, the `name` in the verified certificate of the
        connection may prove the user.
        PERMITTED_CALLER in the permissive mode, in place of a refusal.
        """
        header = headers.get(_AUTHORIZATION)
        if header is not None and self._inner.is_proof(header, request):
            return INNER_CALLER
        if not self._table.is_complete:
            return self.not_read_yet(address, request) or PERMITTED_CALLER
        try:
            if header is None:
                return self._callers.of_certificate(name, headers)
            return self._callers.caller_of(header, address)
        except NoHeader as refused:
            denial, user, reason = _WITHOUT_HEADER, refused.user, refused.reason
        except CallerRefused as refused:
            denial, user, reason = _WRONG, refused.user, refused.reason
        return self.denied(None, Audited(user, address, request), reason, denial) or PERMITTED_CALLER

    def not_read_yet(self, address: str, request: str) -> Denial | None:
        """Return the denial of a call that nothing can be decided about, before the first entries of a store were read."""
        denial = Denial(503, "the users of the cluster are not read yet; try again")
        return self.denied(None, Audited("", address, request), "not_read_yet", denial)

    def admit(
        self, caller: Caller, route: HttpRoute, fields: Mapping[str, str], body: bytes, address: str
    ) -> Admission | Denial:
        """Return the admission of a call with these decoded parameters, or why it is refused.

        Raises MalformedBody for a body that cannot be read.
        """
        request = " ".join(route)
        try:
            needed, records = self._required(route, fields, body)
        except RightsRefused as refused:
            asked = Audited(caller.user, address, request, way=caller.proof)
            denial = self.denied(caller, asked, "unreadable", Denial(403, refused.remark))
            if denial is not None:
                return denial
            needed, records = (), ()

        def decide(requirements: Sequence[Requirement]) -> Denial | None:
            return self.decide(caller, request, requirements, address)

        is_named = any(isinstance(one, Need) for one in needed)
        denial = decide(needed) if needed else None
        return denial or Admission(caller, records, decide, is_named=is_named)

    def decide(
        self, caller: Caller, request: str, needed: Sequence[Requirement], address: str
    ) -> Denial | None:
        """Return why a caller is refused."""
        if caller is INNER_CALLER:
            self._audit.allowed(
                Audited("", address, request, tuple(needed), caller.proof), Verdict(Reason.INNER_USER)
            )
            return None
        audited = Audited(caller.user, address, request, tuple(needed), caller.proof)
        if (
            caller.is_permitted
        ):  # noted when it proved no user; what it needs may be about access all the same
            if self._is_about_access(audited):
                return self.denied(caller, audited, "no_user", _WITHOUT_HEADER)
            return None
        source = self.source_of(address)
        verdict = self._table.state.decide(caller.user, needed, source, self._now_ms())
        if not verdict.is_allowed:
            denial = (
                _WRONG  # deleted since its token was made
                if verdict.reason is Reason.UNKNOWN_USER
                else Denial(403, refusal_text(verdict, caller.user, source))
            )
            rule = verdict.deciding
            return self.denied(
                caller, audited, verdict.reason.value, denial, "" if rule is None else rule.text
            )
        refused = self._narrowed(caller, audited)
        if refused is not None:
            return self.denied(caller, audited, *refused)
        self._audit.allowed(audited, verdict)
        return None

    def _narrowed(self, caller: Caller, audited: Audited) -> tuple[str, Denial, str] | None:
        """Return why a call that its user may make is refused nevertheless: reason, denial and rule."""
        if caller.scope is not None and not is_in_scope(caller.scope, audited.required):
            lacking = ", ".join(map(requirement_text, audited.required))
            words = f"the scope of the token {caller.token_id} does not cover {lacking}."
            return OUT_OF_SCOPE, Denial(403, words), ""
        validators = self._refusals.validators
        refused = None if validators is None else validators.refusal(audited)
        return None if refused is None else (VALIDATOR, Denial(403, refused.words), refused.validator)

    def denied(
        self, caller: Caller | None, asked: Audited, reason: str, denial: Denial, rule: str = ""
    ) -> Denial | None:
        """Return the denial of a call, unless the mode permits it. `caller`: the user that it proved, if it did."""
        proved = caller is not None and not caller.is_permitted
        must = self._is_about_access(asked) or (proved and self._needs_token_when_off)
        return None if self._refusals.permits(asked, reason, rule, is_about_access=must) else denial

    def _is_about_access(self, asked: Audited) -> bool:
        return asked.request in self._about_access or is_about_access(asked.required)

    # For heads that repeat

    def fast_pass(
        self, headers: Mapping[bytes, bytes], route: HttpRoute, fields: Mapping[str, str]
    ) -> FastPass | None:
        """Return what all calls with these headers require; None if it depends on more than the head."""
        header = headers.get(_AUTHORIZATION)
        if not header or self.reads_body(route) or self._refusals.validators is not None:
            return None  # validators are asked about each call
        try:
            needed, records = self._required(route, fields, b"")
        except (RightsRefused, MalformedBody):
            return None
        return None if records or is_open(needed) else FastPass(digest_of(header), " ".join(route), needed)

    def passes(self, given: FastPass, address: str) -> Admission | None:
        """Return the admission of a call with a known head; None if it has to be decided in full: then nothing was recorded.

        A decision is kept for the next call from the same address, until any user, policy or token changes, or the token or user ends.
        """
        allowed = given.allowed
        if (
            allowed is None
            or allowed.versions != self._callers.versions
            or allowed.address != address
            or self._now_ms() >= allowed.ends_ms
        ):
            allowed = given.allowed = self._allowed(given, address)
            if allowed is None:
                return None
        self._audit.allowed(allowed.asked, allowed.verdict)
        return ADMITTED

    def _allowed(self, given: FastPass, address: str) -> _Allowed | None:
        """Decide about calls with a known head; None if they are refused, or their caller has to be verified (again)."""
        caller = self._callers.known(given.digest)
        account = None if caller is None else self._table.state.find(caller.user)
        if caller is None or account is None:
            return None
        verdict = account.decide(given.needed, self.source_of(address), self._now_ms())
        if not verdict.is_allowed or not (caller.scope is None or is_in_scope(caller.scope, given.needed)):
            return None
        ends = [ends_ms for ends_ms in (caller.ends_ms, account.user.expires_ms) if ends_ms is not None]
        asked = Audited(caller.user, address, given.request, given.needed, caller.proof)
        return _Allowed(self._callers.versions, address, min(ends, default=_NEVER_MS), asked, verdict)

    def _required(
        self, route: HttpRoute, fields: Mapping[str, str], body: bytes
    ) -> tuple[tuple[Requirement, ...], tuple[OfRecord, ...]]:
        asked = Asked(fields, body, self._cluster)
        return split_of_record(requirements_of_route(self._rows, *route, asked))

    def source_of(self, address: str) -> SourceAddress:
        """Return the address of a client for networks of policies."""
        found = self._sources.get(address)
        if found is None:
            try:
                found = SourceAddress.parse(address)
            except MalformedNetwork:
                found = _NOWHERE
            self._sources.keep(address, found)
        return found
