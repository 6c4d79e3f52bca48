"""A user, and the policies of a subject, as JSON: the bodies of messages in a system topic.

Each record holds all of its user or subject, so the latest one counts. `v` is the version of its form: a change that an older reader
would misread needs the next number. A reader refuses every version but its own, because half-understood policies would decide.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from gantry_access.errors import AccessError, InnerUser, UnknownRecordVersion, UnreadableRecord
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import ADMIN_TYPES, Subject, User, UserStatus, UserType

VERSION: Final = 1

RecordT = TypeVar("RecordT", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    v: int


class _UserRecord(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    v: int = VERSION
    user: str
    type: UserType
    status: UserStatus
    secrets: tuple[str, ...]
    """Sealed."""
    expires_ms: int | None


class _EntryRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    resource: str
    actions: list[str]
    decision: Decision
    networks: list[str]


class _PoliciesRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    v: int = VERSION
    subject: str
    custom: list[_EntryRecord]
    default: list[_EntryRecord]


def encode_user(user: User) -> bytes:
    """Return the record of a user. Raises InnerUser: those of Gantry's own services are not stored."""
    if user.type not in ADMIN_TYPES:
        raise InnerUser(f"the user {user.name!r} is one of Gantry's own services, which are not stored")
    return msgspec.json.encode(
        _UserRecord(
            user=user.name,
            type=user.type,
            status=user.status,
            secrets=user.secrets,
            expires_ms=user.expires_ms,
        )
    )


def decode_user(data: bytes) -> User:
    """Return the user of a record. Raises UnreadableRecord, and UnknownRecordVersion for a later form."""
    record = _decode(data, _UserRecord)
    if record.type not in ADMIN_TYPES:
        raise UnreadableRecord(
            "the record of a user is unreadable: no record makes one of Gantry's own services"
        )
    try:
        return User(record.user, record.type, record.status, record.secrets, record.expires_ms)
    except AccessError as error:
        raise UnreadableRecord(f"the record of a user is unreadable: {error}") from error


def encode_policies(policies: SubjectPolicies) -> bytes:
    """Return the record of a subject's policies."""
    return msgspec.json.encode(
        _PoliciesRecord(
            subject=policies.subject.text,
            custom=[_record(entry) for entry in policies.custom],
            default=[_record(entry) for entry in policies.default],
        )
    )


def decode_policies(data: bytes) -> SubjectPolicies:
    """Return the policies of a record. Raises UnreadableRecord, and UnknownRecordVersion for a later form."""
    record = _decode(data, _PoliciesRecord)
    try:
        return SubjectPolicies(
            Subject.parse(record.subject),
            tuple(_entry(entry) for entry in record.custom),
            tuple(_entry(entry) for entry in record.default),
        )
    except AccessError as error:
        raise UnreadableRecord(f"the record of policies is unreadable: {error}") from error


def _record(entry: PolicyEntry) -> _EntryRecord:
    return _EntryRecord(
        resource=entry.resource.text,
        actions=entry.actions.names,
        decision=entry.decision,
        networks=[network.text for network in entry.networks],
    )


def _entry(record: _EntryRecord) -> PolicyEntry:
    return PolicyEntry(
        Resource.parse(record.resource),
        Action.parse_all(record.actions),
        record.decision,
        tuple(SourceNetwork.parse(text) for text in record.networks),
    )


def _decode(data: bytes, kind: type[RecordT]) -> RecordT:
    try:
        version = msgspec.json.decode(data, type=_Versioned).v
        if version != VERSION:
            raise UnknownRecordVersion(
                f"the record has version {version}, this process reads {VERSION} only: update it"
            )
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"the record is unreadable: {error}") from error
