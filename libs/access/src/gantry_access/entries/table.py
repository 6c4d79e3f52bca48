"""All entries of a cluster, and what they mean at this moment: accounts, tokens, keys to verify signatures with.

Entries may come in any order, twice, or from a store that was away: the newest of each key counts. Deletions are kept, so that an old copy
of what was deleted does not come back with a store that missed the deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from gantry_access.entries.contents import Content, content_of
from gantry_access.entries.entry import DELETED, Entry, Key, Kind
from gantry_access.evaluation.state import AccessState, Account
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, User
from gantry_access.secrets.errors import SecretError
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.signatures.signing_key import SigningKey
from gantry_access.tokens.stored_token import StoredToken

ValueT = TypeVar("ValueT")

DAY_MS = 86_400_000
TOKEN_DAYS_MAX = 366
"""The longest life of a token. The deletion of one is kept that long."""


class AccessTable:
    """The newest entry of every key. Not for several threads."""

    def __init__(self, keys: SealingKeys) -> None:
        """`keys` open the secrets of users."""
        self._keys = keys
        self._latest: dict[Key, tuple[int, Entry]] = {}
        """With the version at which the entry came, in the order of versions."""
        self._accounts: dict[str, Account] = {}
        self._policies: dict[str, SubjectPolicies] = {}
        self._users: dict[str, User] = {}
        self._tokens: dict[str, StoredToken] = {}
        self._tokens_by_hash: dict[bytes, StoredToken] = {}
        self._signing: dict[str, tuple[SigningKey, ...]] = {}
        """Opened when a user comes, not at its first request: the time of a refusal must not tell which users exist."""
        self.version: int = 0
        """Grows with every entry that is news."""
        self.state: AccessState = AccessState({})
        """The accounts of all users."""
        self.is_complete: bool = False
        """Whether the entries of a cluster were read: before that an unknown user may exist. Set by the reader."""

    def __len__(self) -> int:
        return len(self._latest)

    def take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Merge entries and return those that are news, in their order.

        Raises UnreadableRecord or UnknownRecordVersion for a record that it cannot read; nothing changes then.
        """
        news: dict[Key, tuple[Entry, Content | None]] = {}
        for entry in entries:
            known = news[entry.key][0] if entry.key in news else self.find(entry.key)
            if entry.replaces(known):
                news.pop(entry.key, None)
                news[entry.key] = entry, content_of(entry)
        for key, (entry, content) in news.items():
            self._latest.pop(key, None)
            self.version += 1
            self._latest[key] = self.version, entry
            self._put(key, content)
        self._rebuild({key.name for key in news if key.kind is not Kind.TOKEN})
        return [entry for entry, _ in news.values()]

    def find(self, key: Key) -> Entry | None:
        """Return the entry of a key, which may be a deletion."""
        found = self._latest.get(key)
        return None if found is None else found[1]

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, deletions too, in the order in which they came."""
        return (entry for _, entry in self._latest.values())

    def since(self, version: int) -> list[Entry]:
        """Return the entries that came after a version, oldest first."""
        return [entry for _, entry in self._after(version)]

    def page(self, version: int, bytes_max: int) -> tuple[list[Entry], int]:
        """Return entries that came after a version, oldest first, and the version to ask with for the next ones.

        As many as their records have this many bytes, but at least one; the table's version, and none, at the end.
        """
        newer: list[Entry] = []
        last, size = self.version, 0
        for came, entry in self._after(version):
            size += len(entry.record or DELETED) + len(entry.name)
            if newer and size > bytes_max:
                return newer, last
            newer.append(entry)
            last = came
        return newer, self.version

    def next_stamp(self, key: Key, now_ms: int) -> int:
        """Return the stamp of a change that is made now, and that replaces the entry of this key, whatever the clock says."""
        known = self.find(key)
        return now_ms if known is None else max(now_ms, known.stamp_ms + 1)

    def deletions(self, name: str, now_ms: int) -> list[Entry]:
        """Return the entries that delete a user with its policies and tokens.

        Take those without the user itself when a user is created: a later user of the same name inherits nothing.
        """
        keys = [Key(Kind.USER, name), Key(Kind.POLICIES, name)]
        keys += [Key(Kind.TOKEN, token.id) for token in self._tokens.values() if token.user == name]
        return [
            Entry(key.kind, key.name, self.next_stamp(key, now_ms), None)
            for key in keys
            if (known := self.find(key)) is not None and known.record is not None
        ]

    def forget(self, now_ms: int) -> list[Key]:
        """Forget tokens that ended, and deletions of tokens, a year after the last moment at which they counted; return their keys.

        Deletions of users and policies stay: a store that was away for years must not bring a user back.
        """
        before_ms = now_ms - TOKEN_DAYS_MAX * DAY_MS
        gone = [
            key
            for key, (_, entry) in self._latest.items()
            if key.kind is Kind.TOKEN and self._counted_until(entry) < before_ms
        ]
        for key in gone:
            del self._latest[key]
            self._put(key, None)
        return gone

    def token(self, digest: bytes) -> StoredToken | None:
        """Return the token with this hash, expired or not."""
        return self._tokens_by_hash.get(digest)

    def tokens(self) -> Iterable[StoredToken]:
        """Return all tokens."""
        return self._tokens.values()

    def policies(self) -> Iterable[SubjectPolicies]:
        """Return the policies of all users that exist."""
        return [found for name, found in self._policies.items() if name in self._users]

    def signing_keys(self, user: str) -> Sequence[SigningKey]:
        """Return the keys that may sign for a user: none if it does not exist, or if its secrets do not open.

        A secret that does not open refuses its user, and nobody else: `unopened` names it.
        """
        return self._signing.get(user, ())

    def unopened(self) -> Mapping[str, str]:
        """Return why a secret does not open, by user: its key is not given, or the record was changed."""
        reasons: dict[str, str] = {}
        for user in self._users.values():
            for sealed in user.secrets:
                try:
                    self._keys.open(user.name, sealed)
                except SecretError as error:
                    reasons[user.name] = str(error)
        return reasons

    def _after(self, version: int) -> list[tuple[int, Entry]]:
        newer: list[tuple[int, Entry]] = []
        for found in reversed(self._latest.values()):
            if found[0] <= version:
                break
            newer.append(found)
        newer.reverse()
        return newer

    def _open(self, user: User) -> tuple[SigningKey, ...]:
        keys: list[SigningKey] = []
        for sealed in user.secrets:
            try:
                keys.append(SigningKey(self._keys.open(user.name, sealed).reveal()))
            except SecretError:
                continue
        return tuple(keys)

    def _put(self, key: Key, content: Content | None) -> None:
        if key.kind is Kind.TOKEN:
            earlier = self._tokens.pop(key.name, None)
            if earlier is not None and self._tokens_by_hash.get(earlier.hash) is earlier:
                del self._tokens_by_hash[earlier.hash]
            if isinstance(content, StoredToken):
                self._tokens[key.name] = self._tokens_by_hash[content.hash] = content
        elif key.kind is Kind.USER:
            user = content if isinstance(content, User) else None
            _set(self._users, key.name, user)
            _set(self._signing, key.name, None if user is None else self._open(user))
        else:
            _set(self._policies, key.name, content if isinstance(content, SubjectPolicies) else None)

    def _rebuild(self, names: set[str]) -> None:
        """Make the accounts of these names again, and the state."""
        if not names:
            return
        for name in names:
            user = self._users.get(name)
            if user is None:
                self._accounts.pop(name, None)
                continue
            policies = self._policies.get(name)
            earlier = self._accounts.get(name)
            if earlier is not None and policies is not None and earlier.policies is policies:
                self._accounts[name] = Account(user, policies, earlier.rules)
            else:
                self._accounts[name] = Account(user, policies or SubjectPolicies(Subject(name)))
        self.state = AccessState(self._accounts)

    def _counted_until(self, entry: Entry) -> int:
        token = self._tokens.get(entry.name)
        return entry.stamp_ms if token is None else max(entry.stamp_ms, token.expires_ms)


def _set(table: dict[str, ValueT], name: str, value: ValueT | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
