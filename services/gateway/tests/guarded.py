"""A gateway with access control over in-memory ports: users, policies and tokens, and a store that takes changes."""

from __future__ import annotations

import base64

import msgspec

from gantry_access.entries.contents import policies_entry, token_entry, user_entry
from gantry_access.entries.entry import Entry, Key, Kind, encode_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User, UserType
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken
from gantry_access.tokens.token_text import token_hash, token_text
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard.audit import Asked, Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.failures import FailureLimits
from gantry_guard.guard import Guard
from gantry_guard.introduction import Introducer, Introductions
from gantry_guard.refusals import Refusals
from gantry_wire.codes import ResponseCode
from gantry_wire.private_requests.access_change import CONFLICT, DELETED, AccessChanged
from gateway.ports.stores import PeerAway, StoreRefused
from gateway.process.assembly import AccessParts

KEYS = ClusterKeys({"k1": bytes(range(32))})
BEGIN_MS = 1_700_000_000_000
SETTINGS = {"access_key_file": "keys"}
"""Switches access control on in the settings; the keys are given."""


class NotedAudit(Audit):
    """An audit log in memory."""

    def __init__(self) -> None:
        super().__init__(
            None, "gateway", Metrics(), wall_ms=lambda: BEGIN_MS, make_thread=machine().make_thread
        )
        self.admitted: list[Asked] = []
        self.denied: list[tuple[Asked, str]] = []
        self.passed: list[tuple[Asked, str]] = []
        self.changes: list[tuple[Asked, str, str]] = []

    def allowed(self, asked, verdict):
        super().allowed(asked, verdict)
        self.admitted.append(asked)

    def refused(self, asked, reason, rule=""):
        super().refused(asked, reason, rule)
        self.denied.append((asked, reason))

    def permitted(self, asked, reason, rule=""):
        super().permitted(asked, reason, rule)
        self.passed.append((asked, reason))

    def changed(self, asked, before, after):
        super().changed(asked, before, after)
        self.changes.append((asked, before, after))


class Access:
    """Access control of one gateway under test, with its clock."""

    def __init__(
        self,
        jwt=None,
        keys=KEYS,
        *,
        is_permissive: bool = False,
        tls_users: bool = False,
        validators=None,
    ) -> None:
        self.now_ms, self.steady = BEGIN_MS, 0.0
        self.table = AccessTable(keys.sealing)
        self.table.is_complete = True
        self.audit = NotedAudit()
        self.failures = FailureLimits(lambda: self.steady)
        self.guard = Guard(
            keys=keys,
            table=self.table,
            introductions=Introductions(KEYS.inner, bytes),
            introducer=Introducer(KEYS.inner, "gateway", bytes),
            failures=self.failures,
            audit=self.audit,
            refusals=Refusals(self.audit, validators, is_permissive=is_permissive),
            certificates=CertificateUsers(self.table, is_on=tls_users),
            now_ms=lambda: self.now_ms,
        )
        self.stores = MemoryChanges(lambda: self.now_ms)
        self.made = 0
        self.parts = AccessParts(self.guard, self.stores, jwt, self.random)

    def random(self, count: int) -> bytes:
        self.made += 1
        return self.made.to_bytes(count)

    def take(self, *entries: Entry) -> None:
        """Take entries as if they came from a store."""
        self.stores.table.take(entries)
        self.table.take(entries)

    def stamp(self, kind: Kind, name: str) -> int:
        return self.table.next_stamp(Key(kind, name), self.now_ms)

    def user(self, name: str, *policies: str, secret="secret-of-", kind=UserType.NORMAL, **parts) -> str:
        """Add a user with policies as `Allow Pub Topic:orders`; return its Basic header."""
        secret = f"{secret}{name}"
        sealed = KEYS.sealing.seal(name, HiddenText(secret), self.random(12))
        self.take(user_entry(User(name, kind, secrets=(sealed,), **parts), self.stamp(Kind.USER, name)))
        self.policies(name, *policies)
        return basic(name, secret)

    def policies(self, name: str, *policies: str) -> None:
        entries = tuple(entry_of(text) for text in policies)
        found = SubjectPolicies(Subject(name), entries)
        self.take(policies_entry(found, self.stamp(Kind.POLICIES, name)))

    def token(self, user: str, *scope: str, seconds: int = 60, id: str = "t1") -> str:  # noqa: A002
        """Add a token with a scope as `Pub Topic:orders`; return its Bearer header."""
        text = token_text(self.random(32))
        parts = [one.partition(" ") for one in scope] or [("All", " ", "*")]
        entries = tuple(
            ScopeEntry(Resource.parse(where), Action.parse_all(what.split("/"))) for what, _, where in parts
        )
        token = StoredToken(id, user, token_hash(text), entries, self.now_ms, self.now_ms + seconds * 1000)
        self.take(token_entry(token, self.stamp(Kind.TOKEN, id)))
        return f"Bearer {text.reveal()}"

    def delete(self, kind: Kind, name: str) -> None:
        self.take(Entry(kind, name, self.stamp(kind, name), None))


class MemoryChanges:
    """Stores that share one table, and take changes as 9056 says."""

    def __init__(self, now_ms) -> None:
        self.now_ms = now_ms
        self.table = AccessTable(KEYS.sealing)
        self.away: dict[str, PeerAway | StoreRefused] = {}
        self.taken: list[tuple[str, str]] = []
        """Broker and author of each change."""

    async def change(self, broker, change):
        if broker.name in self.away:
            raise self.away[broker.name]
        entries: list[Entry] = []
        for one in change.entries:
            key = Key(Kind(one.kind), one.name)
            known = self.table.find(key)
            if one.made_from_ms not in (None, 0 if known is None else known.stamp_ms):
                raise StoreRefused(ResponseCode.ILLEGAL_OPERATION, "another entry is stored", CONFLICT)
            record = bytes(one.record)
            stamp_ms = self.table.next_stamp(key, self.now_ms())
            entries.append(Entry(*key, stamp_ms, None if record == DELETED else record))
        self.table.take(entries)
        self.taken.append((broker.name, change.by))
        return AccessChanged(entries=[msgspec.Raw(encode_entry(entry)) for entry in entries])


def entry_of(text: str) -> PolicyEntry:
    decision, actions, resource, *networks = text.split()
    return PolicyEntry(
        Resource.parse(resource),
        Action.parse_all(actions.split("/")),
        Decision(decision),
        tuple(SourceNetwork.parse(one) for one in networks),
    )


def basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def by(header: str) -> dict[str, str]:
    return {"authorization": header}
