"""Stands before the handler of a remoting port: verifies who sends a frame, and decides whether it may.

Gantry's own services introduce themselves once per connection, and pass at once. Every request of others is verified and decided: no verdict
about an earlier request counts for a later one. A request that cannot be decided is refused. What a refusal means, `Refusals` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from gantry_access.entries.table import AccessTable
from gantry_access.errors import AccessError
from gantry_access.evaluation.refusals import REFUSED_CODE, refusal_text
from gantry_access.model.actions import Action
from gantry_access.model.needs import ACCESS_TOPIC, OfRecord, Requirement, is_about_access, topic_requirement
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.request_table import ABOUT_ACCESS, REQUESTS, requirements_of_request
from gantry_access.signatures.remoting import ACCESS_KEY, SIGNATURE, is_signed, join_like
from gantry_access.signatures.signing_key import is_signature_of
from gantry_access.texts import CONTEXT_UNREADABLE, CREDENTIALS_WRONG, USERNAME_MISSING
from gantry_guard.admitted import Admitted
from gantry_guard.audit import Asked as Audited
from gantry_guard.callers import (
    ACTING_USER,
    ADMITTED,
    INTRODUCTION,
    SIGNED_BY,
    Connected,
    Source,
    introduce,
    request_name,
    source_of,
)
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.failures import FailureLimits
from gantry_guard.introduction import INNER, Introductions
from gantry_guard.refusals import Refusals
from gantry_guard.validators import REASON as VALIDATOR
from gantry_guard.validators import Validators
from gantry_link.serving.peer import Peer
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import FLAG_RESPONSE, decode_whole_command
from gantry_wire.frames.frame_stream import RawFrame
from gantry_wire.frames.known_headers import PROPERTIES, VARYING, HeaderPattern, KnownSend

TopicOfRecord = Callable[[int, Asked], str | None]
"""Returns the topic of the record that a request (code, fields, body) identifies; None if there is none."""
NOT_READ_YET: Final = "access control has not read its users yet; try again."
_HELD: Final = frozenset({int(RequestCode.PULL_MESSAGE), int(RequestCode.LITE_PULL_MESSAGE)})
"""Requests whose answers may come much later."""
_REQUIREMENTS_MAX = 4096
"""Cached requirements, by code and names."""
_NAMES_CHARS_MAX = 1024
"""Requirements of more characters of names are not cached."""
_NAMED_KEY = ACCESS_KEY.encode()


class _Request(NamedTuple):
    source: Source
    code: int
    fields: dict[str, str]
    body: bytes

    @property
    def is_signed(self) -> bool:
        """Whether its signature decides about its user, be it good or bad."""
        return ACCESS_KEY in self.fields or SIGNATURE in self.fields

    def claimed(self, user: str) -> Audited:
        """As a request of a user that it did not prove."""
        return Audited(user, self.source.text, request_name(self.code))

    def audited(self, user: str, required: tuple[Requirement, ...] = ()) -> Audited:
        """As a request of the user that it proved."""
        way = "signature" if self.is_signed else "certificate"
        return Audited(user, self.source.text, request_name(self.code), required, way)


class _SendsLike(NamedTuple):
    """What signed sends have in common that differ only in queue id, born time, properties and signature."""

    user: str
    join: Callable[[tuple[bytes, ...]], bytes]
    """Returns what is signed, from the values that vary."""
    required: tuple[Requirement, ...]
    cancel_mark: bytes
    """Properties that contain it require more."""
    request: str


class _Refused(Exception):
    """A request that access control refuses, with the error that answers it."""

    def __init__(self, error: WireError, asked: Audited, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.error, self.asked, self.reason, self.rule = error, asked, reason, rule


class Door:
    """Admits the frames of one port, or of several ports of one service."""

    def __init__(
        self,
        table: AccessTable,
        introductions: Introductions,
        cluster: str,
        *,
        failures: FailureLimits,
        refusals: Refusals,
        certificates: CertificateUsers,
        now_ms: Callable[[], int],
        topic_of_record: TopicOfRecord | None = None,
    ) -> None:
        """`cluster`: the one whose rights count here. `now_ms`: wall time. `topic_of_record`: absent where no request identifies a record."""
        self._table, self._introductions, self._cluster = table, introductions, cluster
        self._failures, self._refusals, self._audit, self._now_ms = failures, refusals, refusals.audit, now_ms
        self._certificates = certificates
        self._topic_of_record, self._validators = topic_of_record, refusals.validators
        self._requirements = _Requirements(cluster)
        self._of_record = frozenset(code for code, row in REQUESTS.items() if row.is_of_record)

    def admit(self, peer: Peer, raw: RawFrame) -> bool:
        """Return whether the handler may handle a frame; False: it is done with. Raises RefusedRequest, and MalformedHeader.

        An inner peer that names no user in its request passes undecoded. The server answers what is raised, unless the request is one-way.
        """
        if INNER in peer.attributes and _NAMED_KEY not in raw.header:
            return True
        command = decode_whole_command(raw)
        if command.flag & FLAG_RESPONSE:
            return False  # of a call that is no longer open
        if command.code in INTRODUCTION:
            introduce(self._introductions, self._audit, peer, command)
            return False
        fields = cast("dict[str, str]", command.fields or {})
        if ACCESS_KEY not in fields and INNER in peer.attributes:
            return True  # a value has the word: a topic, a property of a message
        request = _Request(source_of(peer), command.code, fields, command.body)
        try:
            allowed = self._decide(request, self._authenticated(peer, request))
        except _Refused as refused:
            peer.attributes.pop(ADMITTED, None)
            is_about_access = self._is_about_access(request)
            if not self._refusals.permits(
                refused.asked, refused.reason, refused.rule, is_about_access=is_about_access
            ):
                raise refused.error from refused.__cause__
        else:
            if request.code in _HELD:
                keys = self._table.signing_keys(allowed.user) if request.is_signed else None
                peer.attributes[ADMITTED] = Admitted(
                    self._table, self._refusals, self._now_ms, allowed, request.source, keys
                )
        return True

    def admits_known(self, peer: Peer, known: KnownSend, body: bytes) -> bool:
        """Return whether a send of a known head is signed by the user of its connection's last signed request, and allowed.

        The fast path of `admit`: it verifies and decides each request, too. False says nothing: `admit` decides, and counts and audits what
        it refuses.
        """
        pattern, _, queue, born, text, signature = known
        like = pattern.access_note
        if like is None:
            like = pattern.access_note = self._sends_like(pattern)
        if type(like) is not _SendsLike or peer.attributes.get(SIGNED_BY) != like.user:
            return False
        if like.cancel_mark in text or self._validators is not None or not self._table.is_complete:
            return False
        keys = self._table.signing_keys(like.user)
        if not is_signature_of(signature, keys, like.join((queue, born, text)), body):
            return False
        source = source_of(peer)
        verdict = self._table.state.decide(like.user, like.required, source.address, self._now_ms())
        if not verdict.is_allowed:
            return False
        peer.attributes[ACTING_USER] = like.user
        self._audit.allowed(
            Audited(like.user, source.text, like.request, like.required, "signature"), verdict
        )
        return True

    def _sends_like(self, pattern: HeaderPattern) -> _SendsLike | Literal[False]:
        """Return what all sends with the constant part of this header have in common; False if they need the slow path."""
        fields, code = pattern.fields, pattern.code
        if fields is None or pattern.flag & FLAG_RESPONSE or code in self._of_record or code in _HELD:
            return False
        user, join = fields.get(ACCESS_KEY, ""), join_like(fields, VARYING)
        mark = self._requirements.constant_unless(code, VARYING, PROPERTIES)
        if join is None or mark is None or not user or user.isspace():
            return False
        try:
            required = self._requirements.of(code, {**fields, PROPERTIES: ""}, b"")
        except (RightsRefused, AccessError, WireError):
            return False
        return _SendsLike(user, join, required, mark.encode(), request_name(code))

    def may_send(self, peer: Connected, topic: str) -> bool:
        """Whether the user of the last request of a connection may send to a topic; also one of Gantry's own services."""
        if INNER in peer.attributes:
            return True
        user: str = peer.attributes.get(ACTING_USER, "")
        source = source_of(peer)
        try:
            required = topic_requirement(topic, Action.PUB)
        except AccessError:
            return False
        verdict = self._table.state.decide(user, (required,), source.address, self._now_ms())
        reason, rule = verdict.reason.value, ""
        way = "signature" if peer.attributes.get(SIGNED_BY) == user else "certificate"
        asked = Audited(user, source.text, "CHECK_TRANSACTION_STATE", (required,), way if user else "")
        if verdict.is_allowed:
            refused = self._validators and self._validators.refusal(asked)
            if refused is None:
                return True
            reason, rule = VALIDATOR, refused.validator
        elif not self._refusals.is_permissive:
            return False
        return self._refusals.permits(asked, reason, rule, is_about_access=False)

    def _authenticated(self, peer: Peer, request: _Request) -> str:
        """Return the user that signed a request, or that its connection's certificate names. Raises _Refused.

        A signature alone decides about a request that has one: a certificate neither adds to it nor heals a wrong one.
        """
        user = self._signer(peer, request) if request.is_signed else self._certified(peer, request)
        peer.attributes[ACTING_USER] = user
        return user

    def _demand_users(self, request: _Request, user: str) -> None:
        """Raise _Refused until the users were read."""
        if not self._table.is_complete:
            error = RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_READ_YET)
            raise _Refused(error, request.claimed(user), "not_read_yet")

    def _certified(self, peer: Peer, request: _Request) -> str:
        """Return the user that the certificate of a request's connection names."""
        name = self._certificates.name_of(peer)
        if name:
            self._demand_users(request, name)
            if self._certificates.is_user(name):
                return name
        reason = "unknown_certificate" if name else "no_user"
        raise _Refused(_no_permission(USERNAME_MISSING), request.claimed(name), reason)

    def _signer(self, peer: Peer, request: _Request) -> str:
        """Return the user that signed a request. The text for an unknown user is that of a wrong signature."""
        user, address = request.fields.get(ACCESS_KEY, ""), request.source.text
        if not user or user.isspace():
            raise _Refused(_no_permission(USERNAME_MISSING), request.claimed(""), "no_user")
        self._demand_users(request, user)
        # A connection whose last request the user signed keeps being served while somebody else guesses at the same address.
        is_known = peer.attributes.get(SIGNED_BY) == user
        if not is_known and self._failures.is_paused(user, address):
            raise _Refused(_no_permission(CREDENTIALS_WRONG), request.claimed(user), "too_many_failures")
        if not is_signed(request.fields, request.body, self._table.signing_keys(user)):
            peer.attributes.pop(SIGNED_BY, None)
            peer.attributes.pop(ACTING_USER, None)
            self._failures.failed(user, address)
            raise _Refused(_no_permission(CREDENTIALS_WRONG), request.claimed(user), "wrong_signature")
        if not is_known:
            peer.attributes[SIGNED_BY] = user
            self._failures.succeeded(user, address)
        return user

    def _decide(self, request: _Request, user: str) -> Audited:
        """Return what a user's request requires, as it is audited. Raise _Refused unless the user may send it."""
        source, code = request.source, request.code
        try:
            required = stated = self._requirements.of(code, request.fields, request.body)
            if code in self._of_record:
                asked = Asked(request.fields, request.body, self._cluster)
                required = self._with_record(stated, user, code, asked)
        except (RightsRefused, AccessError) as error:
            remark = error.remark if isinstance(error, RightsRefused) else CONTEXT_UNREADABLE
            raise _Refused(_no_permission(remark), request.audited(user), "unmapped") from error
        except WireError as error:
            raise _Refused(error, request.audited(user), "unreadable") from None
        verdict = self._table.state.decide(user, required, source.address, self._now_ms())
        if verdict.is_allowed:
            allowed = request.audited(user, required)
            if self._validators is not None:
                self._demand(self._validators, allowed, source, stated)
            self._audit.allowed(allowed, verdict)
            return allowed
        rule, shown = verdict.deciding, verdict
        if required is not stated:  # the words for a record that does not exist: they name no topic
            shown = self._table.state.decide(user, stated, source.address, self._now_ms())
        raise _Refused(
            RefusedRequest(
                REFUSED_CODE, refusal_text(verdict if shown.is_allowed else shown, user, source.address)
            ),
            request.audited(user, required),
            verdict.reason.value,
            "" if rule is None else rule.text,
        )

    def _demand(
        self, validators: Validators, audited: Audited, source: Source, stated: tuple[Requirement, ...]
    ) -> None:
        """Raise _Refused if a validator refuses an allowed request."""
        refused = validators.refusal(audited)
        if refused is None:
            return
        words = refused.words
        if audited.required is not stated:  # the words for a record that does not exist, as above
            shown = self._table.state.decide(audited.user, stated, source.address, self._now_ms())
            words = words if shown.is_allowed else refusal_text(shown, audited.user, source.address)
        raise _Refused(_no_permission(words), audited, VALIDATOR, refused.validator)

    def _is_about_access(self, request: _Request) -> bool:
        """Return whether a request reads or changes users, policies or tokens."""
        if request.code in ABOUT_ACCESS:
            return True
        try:
            return is_about_access(self._requirements.of(request.code, request.fields, request.body))
        except (RightsRefused, AccessError, WireError):
            return ACCESS_TOPIC in request.fields.values()

    def _with_record(
        self, required: tuple[Requirement, ...], user: str, code: int, asked: Asked
    ) -> tuple[Requirement, ...]:
        """Return what a request requires, with the topic of the record that it identifies where policies decide about it."""
        account = self._table.state.find(user)
        if account is None or account.user.is_super or not any(isinstance(one, OfRecord) for one in required):
            return required
        topic = None if self._topic_of_record is None else self._topic_of_record(code, asked)
        if topic is None:
            return required  # all topics: a user that may not see all of them learns nothing about which records exist
        return tuple(one.on(topic) if isinstance(one, OfRecord) else one for one in required)


def _no_permission(remark: str) -> RefusedRequest:
    return RefusedRequest(REFUSED_CODE, remark)


class _Requirements:
    """What requests require. Remembers it where a few names decide: most requests repeat them."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._cache: BoundedCache[Any, tuple[Requirement, ...]] = BoundedCache(_REQUIREMENTS_MAX)
        self._names: dict[int, tuple[str, ...]] = {
            code: names for code, row in REQUESTS.items() if (names := row.fields_read) is not None
        }
        self._cancels = {code: rule for code, row in REQUESTS.items() if (rule := row.cancels) is not None}

    def constant_unless(self, code: int, varying: Sequence[str], properties: str) -> str | None:
        """Return the text in the properties that alone makes requests of a code require something else than others with the same other fields.

        None where the body or one of the varying fields makes requirements, too.
        """
        names, cancels = self._names.get(code), self._cancels.get(code)
        if names is None or set(names) & set(varying) or cancels is None or cancels.name != properties:
            return None
        return cancels.mark

    def of(self, code: int, fields: dict[str, str], body: bytes) -> tuple[Requirement, ...]:
        """Return what a request requires. Raises as `requirements_of_request` does."""
        names = self._names.get(code)
        cancels = self._cancels.get(code)
        if names is None or (cancels is not None and cancels.mark in fields.get(cancels.name, "")):
            return requirements_of_request(code, Asked(fields, body, self._cluster))
        get = fields.get
        key: tuple[Any, ...] = (code, get(names[0])) if len(names) == 1 else (code, *map(get, names))
        required = self._cache.get(key)
        if required is None:
            required = requirements_of_request(code, Asked(fields, body, self._cluster))
            if sum(len(text) for text in key[1:] if text) <= _NAMES_CHARS_MAX:
                self._cache.keep(key, required)
        return required
