"""Users, policies and tokens of the cluster: looked up in the table of this process, changed through a store, noted in the audit log."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from gantry_access.entries.entry import Key, Kind
from gantry_access.entries.table import AccessTable
from gantry_access.entries.token_records import encode_token
from gantry_access.evaluation.state import Account
from gantry_access.formats.stored_records import encode_policies, encode_user
from gantry_access.limits import SECRETS_PER_USER_MAX
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import User
from gantry_access.rights.requirements import GET, UPDATE, cluster_need
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import NONCE_SIZE, SealingKeys
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken
from gantry_access.tokens.token_text import RANDOM_SIZE, token_hash, token_text
from gantry_guard.audit import Asked, Audit
from gantry_guard.http_callers import Caller
from gateway.http.call import Call
from gateway.http.problems import Problem, forbidden
from gateway.users.changes import Changes, Wanted
from gateway.users.own_tokens import WHOLE_SCOPE, own_end, own_scope, own_token_id, reaches
from gateway.users.resealing import Resealing, reseal_all
from gateway.users.shown import policies_shown, token_shown, user_shown

SECRET_BYTES = 32
TOKEN_ID_BYTES = 8
RESEALED_AT_ONCE = 100
"""Users in one change of a store."""
ShownParts = msgspec.Struct | Sequence[msgspec.Struct] | None
"""What the audit log says of a change, before or after it."""


class NewSecret(NamedTuple):
    """A secret of a user: sealed to be stored, and in clear if it was generated here."""

    sealed: str
    generated: HiddenText | None


class Accounts:
    """What the calls about users do."""

    def __init__(
        self,
        table: AccessTable,
        sealing: SealingKeys,
        changes: Changes,
        audit: Audit,
        now_ms: Callable[[], int],
        secret_bytes: Callable[[int], bytes],
        cluster: str,
    ) -> None:
        """`now_ms` is wall time; `secret_bytes` returns unpredictable bytes; `cluster` is the one whose rights count here."""
        self.table, self._sealing, self._changes, self._audit = table, sealing, changes, audit
        self.now_ms, self._secret_bytes, self._cluster = now_ms, secret_bytes, cluster

    # Users

    def account(self, name: str) -> Account:
        """Return a user with its policies. Raise 404."""
        found = self.table.state.find(name)
        if found is None:
            raise Problem(404, "USER_NOT_EXIST", f"user {name} does not exist", field="user")
        return found

    def new_secret(self, user: str, given: str | None) -> NewSecret:
        """Seal a secret for a user; generate one if none is given."""
        made = self._secret_bytes(SECRET_BYTES).hex()
        secret = HiddenText(made if given is None else given)
        sealed = self._sealing.seal(user, secret, self._secret_bytes(NONCE_SIZE))
        return NewSecret(sealed, secret if given is None else None)

    async def create(self, call: Call, user: User) -> str:
        """Create a user; nothing that an earlier user of its name left is left to it. Return the store's name. Raise 409."""
        if self.table.state.find(user.name) is not None:
            raise Problem(409, "USER_EXISTS", f"user {user.name} exists", field="user")
        self._check_super(call, user)
        left = [Wanted(one.key, None) for one in self.table.deletions(user.name, self.now_ms())]
        wanted = [Wanted(Key(Kind.USER, user.name), encode_user(user)), *left]
        return await self._write(call, wanted, None, user_shown(user))

    async def change(self, call: Call, before: User, after: User) -> str:
        """Change a user; return the store's name."""
        self._check_super(call, before, after)
        wanted = [Wanted(Key(Kind.USER, after.name), encode_user(after))]
        return await self._write(call, wanted, user_shown(before), user_shown(after))

    async def rotate(self, call: Call, user: User, secret: NewSecret) -> tuple[User, str]:
        """Add a second secret. Raise 409 while a rotation is not ended."""
        if len(user.secrets) >= SECRETS_PER_USER_MAX:
            detail = f"user {user.name} has {len(user.secrets)} secrets: end the rotation with PATCH and dropOldSecret"
            raise Problem(409, "ROTATION_OPEN", detail, field="user")
        after = replace(user, secrets=(*user.secrets, secret.sealed))
        return after, await self.change(call, user, after)

    async def delete(self, call: Call, user: User) -> str:
        """Delete a user with its policies and tokens; return the store's name."""
        self._check_super(call, user)
        wanted = [Wanted(one.key, None) for one in self.table.deletions(user.name, self.now_ms())]
        return await self._write(call, wanted, user_shown(user), None)

    async def reseal(self, call: Call, *, is_dry_run: bool) -> Resealing:
        """Seal every secret of an old key again with the current one; return what that was, or would be.

        Raise 409 if one of the users was changed at the same time. What was resealed before stays so, and a repeat continues.
        """
        users = [account.user for account in self.table.state]
        found = reseal_all(users, self._sealing, self._secret_bytes)
        for first in range(0, 0 if is_dry_run else len(found.changed), RESEALED_AT_ONCE):
            batch = found.changed[first : first + RESEALED_AT_ONCE]
            wanted = [Wanted(Key(Kind.USER, after.name), encode_user(after)) for _, after in batch]
            before = [user_shown(user) for user, _ in batch]
            await self._write(call, wanted, before, [user_shown(user) for _, user in batch])
        return found

    # Policies

    async def put_policies(self, call: Call, policies: SubjectPolicies) -> str:
        """Replace all policies of a user; return the store's name. Raise 404."""
        before = self.account(policies.subject.name).policies
        wanted = [Wanted(Key(Kind.POLICIES, policies.subject.name), encode_policies(policies))]
        return await self._write(call, wanted, policies_shown(before), policies_shown(policies))

    async def delete_policies(self, call: Call, name: str) -> str:
        """Delete all policies of a user; return the store's name. Raise 404."""
        before = self.account(name).policies
        known = self.table.find(Key(Kind.POLICIES, name))
        if known is None or known.record is None:
            raise Problem(404, "POLICY_NOT_EXIST", f"user {name} has no policies", field="subject")
        return await self._write(call, [Wanted(Key(Kind.POLICIES, name), None)], policies_shown(before), None)

    # Tokens

    def tokens(self, call: Call, user: str) -> list[StoredToken]:
        """Return the tokens of a user, of all users if it is empty. Of its own, a token shows those that it reaches. Raise 403."""
        caller = _caller_of(call)
        if user and user == caller.user:
            return [one for one in self.table.tokens() if reaches(caller, one)]
        call.check_also([cluster_need(self._cluster, GET)])
        return [one for one in self.table.tokens() if user in ("", one.user)]

    async def create_token(
        self, call: Call, user: str, scope: tuple[ScopeEntry, ...] | None, seconds: int
    ) -> tuple[HiddenText, StoredToken, str]:
        """Create a token of a user; return its text, what is stored, and the store's name. Raise 403, 404, 409."""
        caller, now_ms = _caller_of(call), self.now_ms()
        ends_ms = now_ms + seconds * 1000
        if user == caller.user:
            self._check_super(call, self.account(user).user)
            scope, ends_ms = own_scope(caller, scope), own_end(caller, ends_ms)
            token_id = own_token_id(self.table, user, now_ms, self._secret_bytes(1)[0])
        else:
            call.check_also([cluster_need(self._cluster, UPDATE)])
            self._check_super(call, self.account(user).user)
            token_id = self._secret_bytes(TOKEN_ID_BYTES).hex()
        text = token_text(self._secret_bytes(RANDOM_SIZE))
        token = StoredToken(
            token_id, user, token_hash(text), WHOLE_SCOPE if scope is None else scope, now_ms, ends_ms
        )
        broker = await self._write(
            call, [Wanted(Key(Kind.TOKEN, token.id), encode_token(token))], None, token_shown(token)
        )
        return text, token, broker

    async def delete_token(self, call: Call, token_id: str) -> str:
        """Revoke a token; return the store's name. Raise 403, 404. Without a right on the cluster an unknown one is 403, too."""
        caller = _caller_of(call)
        found = next((one for one in self.table.tokens() if one.id == token_id), None)
        if found is None or not reaches(caller, found):
            call.check_also([cluster_need(self._cluster, UPDATE)])
        if found is None:
            raise Problem(404, "TOKEN_NOT_EXIST", f"token {token_id} does not exist", field="id")
        owner = self.table.state.find(found.user)
        if owner is not None and token_id != caller.token_id:
            self._check_super(call, owner.user)
        return await self._write(call, [Wanted(Key(Kind.TOKEN, token_id), None)], token_shown(found), None)

    def _check_super(self, call: Call, *users: User) -> None:
        """Raise 403 if one of these is a Super user and the client of the call is none, or is limited by the scope of its token.

        Otherwise a user with the right to change users could become a Super user.
        """
        caller = None if call.admission is None else call.admission.caller
        if not any(user.is_super for user in users) or caller is None:
            return
        account = self.table.state.find(caller.user)
        is_whole = caller.scope is None or WHOLE_SCOPE[0] in caller.scope
        if account is None or not account.user.is_super or not is_whole:
            raise forbidden("a Super user, and its tokens, are changed by a Super user only", "user")

    async def _write(self, call: Call, wanted: list[Wanted], before: ShownParts, after: ShownParts) -> str:
        caller = None if call.admission is None else call.admission.caller
        name = "" if caller is None else caller.user
        broker = await self._changes.write(wanted, f"{name} from {call.client}")
        way = "" if caller is None else caller.proof
        asked = Asked(name, call.client, f"{call.method} {call.path}", way=way)
        self._audit.changed(asked, _text(before), _text(after))
        return broker


def _caller_of(call: Call) -> Caller:
    """Return who calls: calls about access prove their user in every mode, and are never admitted by their head alone."""
    admission = call.admission
    assert admission is not None, "access control admitted the call"
    assert admission.caller is not None, "the call was decided in full"
    return admission.caller


def _text(shown: ShownParts) -> str:
    return "" if shown is None else msgspec.json.encode(shown).decode()
