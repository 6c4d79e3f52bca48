"""Changes of users and policies, one at a time: checks with RocketMQ's texts, then entries in the log.

A change is checked against all earlier ones, because it waits for them. It returns once it is durable and applied.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from broker_store.access.asker import Asker
from broker_store.access.change_log import ChangeLog
from broker_store.access.followed import Followed
from gantry_access.entries.contents import content_of, policies_entry, user_entry
from gantry_access.entries.entry import Entry, Key, Kind
from gantry_access.entries.table import AccessTable
from gantry_access.errors import IllegalPolicy, UnreadableRecord
from gantry_access.formats.refused_change import RefusedChange, no_permission
from gantry_access.formats.user_info import UserChange
from gantry_access.model.policies import PolicyType, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User, UserStatus, UserType
from gantry_access.secrets.errors import SecretError
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE, SealingKeys
from gantry_wire.codes import ResponseCode
from gantry_wire.private_requests.access_change import CONFLICT, DELETED, WantedEntry

SUPER_CREATED = "The super user can only be create by super user"
SUPER_UPDATED = "The super user can only be update by super user"
FROM_FILE_MS = 1
"""Stamp of what a start reads from a file. Whatever an administrator has done on any store of the cluster is newer."""


class ChangeAudit(Protocol):
    """Writes administrative changes down."""

    def __call__(self, asker: Asker, before: Entry | None, after: Entry, /) -> None:
        """Note one change that is durable."""
        ...


class AccessAdministration:
    """All changes of one store."""

    def __init__(
        self,
        table: AccessTable,
        keys: SealingKeys,
        log: ChangeLog,
        now_ms: Callable[[], int],
        secret_bytes: Callable[[int], bytes],
        audit: ChangeAudit,
        followed: Followed,
    ) -> None:
        """`now_ms`: the wall clock, which stamps of other stores are compared with."""
        self.table = table
        self._keys = keys
        self._log = log
        self._now_ms = now_ms
        self._secret_bytes = secret_bytes
        self._audit = audit
        self._followed = followed
        self._one_at_a_time = asyncio.Lock()

    # --- users -----------------------------------------------------------------------------------------------

    async def create_user(self, asker: Asker, change: UserChange) -> None:
        """Create a user (3001). Raises RefusedChange, or RefusedRequest where it cannot be stored."""
        if change.type is UserType.SUPER and not asker.may_change_super:
            raise RefusedChange(ResponseCode.SYSTEM_ERROR, SUPER_CREATED)
        async with self._one_at_a_time:
            user = self._user(change.name)
            if user is not None:
                if self._has_just_come(user, change):
                    return
                raise no_permission("The user is existed")
            await self._store(asker, self._new_user(change))

    async def update_user(self, asker: Asker, change: UserChange) -> None:
        """Change parts of a user (3002). A new password replaces all others. Raises as `create_user`."""
        if change.type is UserType.SUPER and not asker.may_change_super:
            raise RefusedChange(ResponseCode.SYSTEM_ERROR, SUPER_UPDATED)
        async with self._one_at_a_time:
            await self._store(asker, [self._changed_user(asker, change)])

    async def delete_user(self, asker: Asker, name: str) -> None:
        """Delete a user with its policies and tokens (3003). An absent one is no error. Raises as `create_user`."""
        async with self._one_at_a_time:
            user = self._user(name)
            if user is not None:
                self._refuse_super(asker, user)
            await self._store(asker, self.table.deletions(name, self._now_ms()))

    # --- policies --------------------------------------------------------------------------------------------

    async def put_policies(self, asker: Asker, policies: SubjectPolicies) -> None:
        """Replace the entries of the resources that `policies` name (3006, 3007). Raises as `create_user`."""
        async with self._one_at_a_time:
            if self._user(policies.subject.name) is None:
                raise no_permission(f"The subject of {policies.subject.text} is not exist.")
            try:
                merged = self.policies_of(policies.subject.name).replacing(policies)
            except IllegalPolicy as error:
                raise no_permission(str(error)) from error
            await self._store(asker, [self._policies_entry(merged)])

    async def delete_policies(
        self, asker: Asker, subject: Subject, kind: PolicyType, resource: Resource | None
    ) -> None:
        """Delete the entries of one resource, or all (3008). Raises as `create_user`."""
        async with self._one_at_a_time:
            if self._user(subject.name) is None:
                raise no_permission("The subject is not exist.")
            policies = self.policies_of(subject.name)
            if not (policies.custom or policies.default):
                if resource is None or self._followed.has(Key(Kind.POLICIES, subject.name)):
                    return
                raise no_permission("The acl is not exist.")
            left = SubjectPolicies(subject) if resource is None else policies.without(kind, resource)
            await self._store(asker, [self._policies_entry(left)])

    # --- whole entries ---------------------------------------------------------------------------------------

    async def replace(
        self, asker: Asker, change: UserChange, policies: SubjectPolicies, *, is_new: bool
    ) -> None:
        """Create or change a user, and replace all of its policies (50). Raises as `create_user`."""
        if change.type is UserType.SUPER and not asker.may_change_super:
            raise RefusedChange(ResponseCode.SYSTEM_ERROR, SUPER_CREATED if is_new else SUPER_UPDATED)
        async with self._one_at_a_time:
            if is_new != (self._user(change.name) is None):
                raise no_permission("another request has changed this user: try again")
            users = self._new_user(change) if is_new else [self._changed_user(asker, change)]
            await self._store(asker, [*users, self._policies_entry(policies)])

    async def change(self, asker: Asker, wanted: Sequence[WantedEntry]) -> list[Entry]:
        """Store entries that one of Gantry's own services wants (9056), and return them with their stamps.

        Raises RefusedChange, and stores nothing, if one was made from another entry than the stored one, or cannot be read.
        """
        async with self._one_at_a_time:
            entries = [self._wanted(one) for one in wanted]
            if len({entry.key for entry in entries}) < len(entries):
                raise RefusedChange(
                    ResponseCode.INVALID_PARAMETER, "a change has one entry of a kind and name"
                )
            await self._store(asker, entries)
            return entries

    async def add_from_file(self, change: UserChange, policies: SubjectPolicies) -> bool:
        """Store a user that a file names, unless an entry of its name exists, even a deletion. Returns whether it was stored."""
        async with self._one_at_a_time:
            if self.table.find(Key(Kind.USER, change.name)) is not None:
                return False
            entries = [user_entry(self._sealed(User(change.name), change), FROM_FILE_MS)]
            if policies.custom or policies.default:
                entries.append(policies_entry(policies, FROM_FILE_MS))
            await self._log.append(entries)
            return True

    async def add_first(self, name: str, password: HiddenText) -> bool:
        """Store a Super user if there is no user at all. Returns whether it was stored."""
        async with self._one_at_a_time:
            if len(self.table.state):
                return False
            user = self._sealed(User(name), UserChange(name, password, UserType.SUPER))
            key = Key(Kind.USER, name)
            stamp_ms = FROM_FILE_MS if self.table.find(key) is None else self._stamp(key)
            await self._log.append([user_entry(user, stamp_ms)])
            return True

    # --- queries ---------------------------------------------------------------------------------------------

    def policies_of(self, name: str) -> SubjectPolicies:
        """Return a user's policies, empty if it has none."""
        account = self.table.state.find(name)
        return SubjectPolicies(Subject(name)) if account is None else account.policies

    def _user(self, name: str) -> User | None:
        account = self.table.state.find(name)
        return None if account is None else account.user

    # --- entries ---------------------------------------------------------------------------------------------

    def _new_user(self, change: UserChange) -> list[Entry]:
        """Return the entries of a new user, which inherits nothing of an earlier one of its name."""
        left = [
            entry
            for entry in self.table.deletions(change.name, self._now_ms())
            if entry.kind is not Kind.USER
        ]
        user = self._sealed(User(change.name), change)
        return [*left, user_entry(user, self._stamp(Key(Kind.USER, change.name)))]

    def _has_just_come(self, user: User, change: UserChange) -> bool:
        """Whether another store made just this user a moment ago."""
        if not self._followed.has(Key(Kind.USER, user.name)) or change.password is None:
            return False
        wanted = change.type or UserType.NORMAL, change.status or UserStatus.ENABLE
        return (user.type, user.status) == wanted and self._opens(user, change.password)

    def _opens(self, user: User, password: HiddenText) -> bool:
        try:
            return [self._keys.open(user.name, sealed) for sealed in user.secrets] == [password]
        except SecretError:
            return False

    def _changed_user(self, asker: Asker, change: UserChange) -> Entry:
        user = self._user(change.name)
        if user is None:
            raise no_permission("The user is not exist")
        self._refuse_super(asker, user)
        return user_entry(self._sealed(user, change), self._stamp(Key(Kind.USER, change.name)))

    def _sealed(self, user: User, change: UserChange) -> User:
        """Return a user with changes, its new password sealed."""
        secrets = user.secrets
        if change.password is not None:
            try:
                secrets = (self._keys.seal(user.name, change.password, self._secret_bytes(NONCE_SIZE)),)
            except ValueError as error:
                raise RefusedChange(ResponseCode.INVALID_PARAMETER, str(error)) from None
        status: UserStatus = change.status or user.status
        return replace(user, type=change.type or user.type, status=status, secrets=secrets)

    def _policies_entry(self, policies: SubjectPolicies) -> Entry:
        key = Key(Kind.POLICIES, policies.subject.name)
        stamp_ms = self._stamp(key)
        if not (policies.custom or policies.default):
            return Entry(key.kind, key.name, stamp_ms, None)
        return policies_entry(policies, stamp_ms)

    def _stamp(self, key: Key) -> int:
        return self.table.next_stamp(key, self._now_ms())

    def _wanted(self, wanted: WantedEntry) -> Entry:
        key = Key(Kind(wanted.kind), wanted.name)
        known = self.table.find(key)
        if wanted.made_from_ms is not None and wanted.made_from_ms != (known.stamp_ms if known else 0):
            raise RefusedChange(
                ResponseCode.ILLEGAL_OPERATION,
                f"the {wanted.kind} {wanted.name!r} has changed meanwhile: read it again",
                {"gantryCode": CONFLICT},
            )
        record = bytes(wanted.record)
        entry = Entry(*key, self._stamp(key), None if record == DELETED else record)
        try:
            content_of(entry)
        except UnreadableRecord as error:
            raise RefusedChange(ResponseCode.INVALID_PARAMETER, str(error)) from error
        return entry

    def _refuse_super(self, asker: Asker, user: User) -> None:
        if user.is_super and not asker.may_change_super:
            raise no_permission(SUPER_UPDATED)

    async def _store(self, asker: Asker, entries: Sequence[Entry]) -> None:
        before = [self.table.find(entry.key) for entry in entries]
        await self._log.append(entries)
        for old, entry in zip(before, entries, strict=True):
            self._audit(asker, old, entry)
