"""Users with their policies at one moment. A change returns another state, so a reader never sees half of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from gantry_access.errors import InnerUser, UnknownUser
from gantry_access.evaluation.rules import Rule, SubjectRules
from gantry_access.evaluation.verdicts import ALLOWED, INNER_USER, SUPER_USER, Reason, Verdict
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open, Requirement
from gantry_access.model.networks import SourceAddress
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, User


class Account:
    """One user with its policies and their index. Never changes."""

    __slots__ = ("_is_disabled", "_skips_policies", "policies", "rules", "user")

    def __init__(self, user: User, policies: SubjectPolicies, rules: SubjectRules | None = None) -> None:
        self.user = user
        self.policies = policies
        self.rules = rules or SubjectRules(policies)
        self._is_disabled = user.is_disabled
        self._skips_policies = user.is_super or user.is_inner

    def decide(self, requirements: Sequence[Requirement], source: SourceAddress, now_ms: int) -> Verdict:
        """Return the decision about a request that requires all of these, at a wall time."""
        if self._is_disabled:
            return Verdict(Reason.USER_DISABLED)
        if self.user.has_expired(now_ms):
            return Verdict(Reason.USER_EXPIRED)
        if not requirements:
            return Verdict(Reason.NO_NEEDS)
        needs: list[Need] = []
        for required in requirements:
            if type(required) is Need:
                needs.append(required)
            elif (refused := self._other(required, needs)) is not None:
                return Verdict(refused, (), required)
        if self._skips_policies:
            return Verdict(INNER_USER if self.user.is_inner else SUPER_USER)
        return self._by_policies(needs, source)

    def _other(self, required: Requirement, needs: list[Need]) -> Reason | None:
        """Return why a requirement that is no need is refused; None if it is met, or if what it needs was added."""
        kind = type(required)
        if kind is OfRecord:
            needs.append(cast("OfRecord", required).everywhere)
            return None
        if kind is Inner:
            return None if self.user.is_inner else Reason.NOT_INNER
        return None if kind is AnyUser or kind is Open else Reason.UNKNOWN_REQUIREMENT

    def _by_policies(self, needs: list[Need], source: SourceAddress) -> Verdict:
        rules: list[Rule] = []
        for need in needs:
            rule = self.rules.deciding(need, source)
            if rule is None:
                return Verdict(Reason.NO_MATCH, tuple(rules), need)
            rules.append(rule)
            if not rule.allows:
                return Verdict(Reason.DENIED, tuple(rules), need)
        return Verdict(ALLOWED, tuple(rules))


class AccessState:
    """All accounts by user name. Immutable; a change copies the table and one account, some hundredths of a ms per 1,000 users."""

    __slots__ = ("_accounts",)

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = dict(accounts)

    @classmethod
    def of(cls, users: Iterable[User], policies: Iterable[SubjectPolicies] = ()) -> AccessState:
        """Return the state of all users at once: the stored ones, and those of Gantry's own services.

        Raises UnknownUser for policies without their user, and InnerUser if another user has the name of one of Gantry's own.
        """
        known: dict[str, User] = {}
        for user in users:
            earlier = known.get(user.name)
            if earlier is not None and (earlier.is_inner or user.is_inner):
                raise InnerUser(f"two users have the name {user.name!r} of one of Gantry's own services")
            known[user.name] = user
        theirs = {found.subject.name: found for found in policies}
        for name in theirs.keys() - known.keys():
            raise UnknownUser(f"there are policies of the user {name!r}, who does not exist")
        return cls(
            {
                name: Account(user, theirs.get(name) or SubjectPolicies(Subject(name)))
                for name, user in known.items()
            }
        )

    def decide(
        self, name: str, requirements: Sequence[Requirement], source: SourceAddress, now_ms: int
    ) -> Verdict:
        """Return the decision about a request of an authenticated user that requires all of these. `now_ms` is wall time.

        Ask `is_open` before: a request that needs no user is not decided here. An OfRecord counts for all topics; where the part that
        reads the record decides, take it out before (`split_of_record`). A kind that is not known is refused.
        """
        account = self._accounts.get(name)
        return account.decide(requirements, source, now_ms) if account else Verdict(Reason.UNKNOWN_USER)

    def find(self, name: str) -> Account | None:
        """Return a user's account."""
        return self._accounts.get(name)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def __len__(self) -> int:
        return len(self._accounts)

    def with_user(self, user: User) -> AccessState:
        """Return the state with a user added, or changed while its policies stay. Raises InnerUser for one of Gantry's own."""
        account = self._changeable(user.name)
        if user.is_inner:
            raise InnerUser(f"the user {user.name!r} cannot become one of Gantry's own services")
        policies = account.policies if account else SubjectPolicies(user.subject)
        return self._with(Account(user, policies, account.rules if account else None))

    def with_policies(self, policies: SubjectPolicies) -> AccessState:
        """Return the state with all policies of a subject replaced. Raises UnknownUser, and InnerUser for one of Gantry's own."""
        account = self._changeable(policies.subject.name)
        if account is None:
            raise UnknownUser(f"the user {policies.subject.name!r} does not exist")
        return self._with(Account(account.user, policies))

    def without_user(self, name: str) -> AccessState:
        """Return the state without a user and its policies. An absent user is no error. Raises InnerUser."""
        self._changeable(name)
        return AccessState({key: account for key, account in self._accounts.items() if key != name})

    def _changeable(self, name: str) -> Account | None:
        account = self._accounts.get(name)
        if account is not None and account.user.is_inner:
            raise InnerUser(f"the user {name!r} is one of Gantry's own services")
        return account

    def _with(self, account: Account) -> AccessState:
        return AccessState({**self._accounts, account.user.name: account})
