"""A token as JSON: the record of its entry. Holds the hash, never the token."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from gantry_access.errors import AccessError, UnknownRecordVersion, UnreadableRecord
from gantry_access.model.actions import Action
from gantry_access.model.resources import Resource
from gantry_access.model.users import check_user_name
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken

VERSION: Final = 1


class _ScopeRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    resource: str
    actions: list[str]


class _TokenRecord(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    v: int = VERSION
    id: str
    user: str
    hash: str
    """SHA-256 in Base64."""
    scope: list[_ScopeRecord]
    created_ms: int
    expires_ms: int

    def __repr__(self) -> str:
        """Return the name without the hash, which has no place in a log."""
        return f"_TokenRecord({self.id!r})"


class _Versioned(msgspec.Struct):
    v: int


def encode_token(token: StoredToken) -> bytes:
    """Return the record of a token."""
    return msgspec.json.encode(
        _TokenRecord(
            id=token.id,
            user=token.user,
            hash=base64.b64encode(token.hash).decode("ascii"),
            scope=[
                _ScopeRecord(resource=one.resource.text, actions=one.actions.names) for one in token.scope
            ],
            created_ms=token.created_ms,
            expires_ms=token.expires_ms,
        )
    )


def decode_token(data: bytes) -> StoredToken:
    """Return the token of a record. Raises UnreadableRecord, and UnknownRecordVersion for a later form."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).v
        if version != VERSION:
            raise UnknownRecordVersion(
                f"the record has version {version}, this process reads {VERSION} only: update it"
            )
        record = msgspec.json.decode(data, type=_TokenRecord)
        check_user_name(record.user)
        return StoredToken(
            record.id,
            record.user,
            base64.b64decode(record.hash, validate=True),
            tuple(
                ScopeEntry(Resource.parse(one.resource), Action.parse_all(one.actions))
                for one in record.scope
            ),
            record.created_ms,
            record.expires_ms,
        )
    except UnknownRecordVersion:
        raise
    except (ValueError, RecursionError, binascii.Error, AccessError) as error:
        raise UnreadableRecord(f"the record of a token is unreadable: {error}") from error
