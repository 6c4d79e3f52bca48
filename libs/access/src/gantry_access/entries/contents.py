"""The content of an entry's record, checked against the entry."""

from __future__ import annotations

from typing import assert_never

from gantry_access.entries.entry import Entry, Kind
from gantry_access.entries.token_records import decode_token, encode_token
from gantry_access.errors import UnreadableRecord
from gantry_access.formats.stored_records import decode_policies, decode_user, encode_policies, encode_user
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import User
from gantry_access.tokens.stored_token import StoredToken

Content = User | SubjectPolicies | StoredToken


def user_entry(user: User, stamp_ms: int) -> Entry:
    """Return the entry of a user. Raises InnerUser for one of Gantry's own."""
    return Entry(Kind.USER, user.name, stamp_ms, encode_user(user))


def policies_entry(policies: SubjectPolicies, stamp_ms: int) -> Entry:
    """Return the entry of a subject's policies."""
    return Entry(Kind.POLICIES, policies.subject.name, stamp_ms, encode_policies(policies))


def token_entry(token: StoredToken, stamp_ms: int) -> Entry:
    """Return the entry of a token."""
    return Entry(Kind.TOKEN, token.id, stamp_ms, encode_token(token))


def content_of(entry: Entry) -> Content | None:
    """Return what an entry holds; None for a deletion. Raises UnreadableRecord, also if the record is of another name."""
    if entry.record is None:
        return None
    match entry.kind:
        case Kind.USER:
            content = decode_user(entry.record)
            name = content.name
        case Kind.POLICIES:
            content = decode_policies(entry.record)
            name = content.subject.name
        case Kind.TOKEN:
            content = decode_token(entry.record)
            name = content.id
        case _:
            assert_never(entry.kind)
    if name != entry.name:
        raise UnreadableRecord(f"the entry {entry.name[:64]!r} holds the record of {name[:64]!r}")
    return content
