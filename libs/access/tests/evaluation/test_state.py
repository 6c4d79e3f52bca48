"""Decisions about whole requests, and states that never change."""

import pytest
from access_texts import HERE, entries, entry, need, state

from gantry_access.errors import InnerUser, UnknownUser
from gantry_access.evaluation.state import AccessState
from gantry_access.evaluation.verdicts import Reason
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, OfRecord, Open
from gantry_access.model.networks import SourceAddress
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, User, UserStatus, UserType

NOW = 1_000
PUB = need("Pub Topic:a")
SUB = need("Sub Topic:a")
GROUP = need("Sub Group:g")


def decide(found, *needs, name="alice", source=HERE, now_ms=NOW):
    return found.decide(name, needs, source, now_ms)


def test_nothing_is_allowed_without_an_entry():
    verdict = decide(state(), PUB)
    assert (verdict.reason, verdict.refused, verdict.deciding) == (Reason.NO_MATCH, PUB, None)
    assert not verdict.is_allowed


def test_all_needs_must_be_allowed():
    found = state("Allow Sub Topic:a", "Allow Sub Group:g")
    verdict = decide(found, SUB, GROUP)
    assert verdict.is_allowed
    assert [rule.entry for rule in verdict.rules] == list(entries("Allow Sub Topic:a", "Allow Sub Group:g"))
    assert verdict.deciding == verdict.rules[0]

    verdict = decide(found, SUB, need("Sub Group:h"))
    assert (verdict.reason, verdict.refused) == (Reason.NO_MATCH, need("Sub Group:h"))
    assert len(verdict.rules) == 1
    assert verdict.deciding is None


def test_a_denied_need_names_its_rule():
    verdict = decide(state("Allow Sub *", "Deny Sub Group:g"), SUB, GROUP)
    assert (verdict.reason, verdict.refused) == (Reason.DENIED, GROUP)
    assert verdict.deciding is not None
    assert verdict.deciding.entry == entry("Deny Sub Group:g")


@pytest.mark.parametrize("kind", list(UserType))
def test_a_request_that_needs_nothing_is_refused_also_for_a_super_user(kind):
    verdict = decide(state("Allow All *", type=kind))
    assert (verdict.reason, verdict.is_allowed) == (Reason.NO_NEEDS, False)


def test_a_super_user_skips_policies():
    verdict = decide(state("Deny All *", type=UserType.SUPER), PUB)
    assert (verdict.reason, verdict.is_allowed) == (Reason.SUPER_USER, True)


@pytest.mark.parametrize("kind", list(UserType))
def test_disabled_and_expired_users_may_do_nothing(kind):
    assert (
        decide(state("Allow All *", type=kind, status=UserStatus.DISABLE), PUB).reason is Reason.USER_DISABLED
    )
    expiring = state("Allow All *", type=kind, expires_ms=NOW)
    assert decide(expiring, PUB, now_ms=NOW - 1).is_allowed
    assert decide(expiring, PUB).reason is Reason.USER_EXPIRED
    assert not decide(expiring, PUB).is_allowed


def test_an_unknown_user_may_do_nothing():
    verdict = decide(state("Allow All *"), PUB, name="Alice")
    assert (verdict.reason, verdict.is_allowed) == (Reason.UNKNOWN_USER, False)


def test_an_entry_with_networks_counts_from_there_only():
    found = state("Allow Pub Topic:a 10.0.0.0/8 2001:db8::/32")
    for address, is_allowed in (
        ("10.9.9.9", True), ("::ffff:10.9.9.9", True), ("2001:db8::9", True), ("11.0.0.1", False), ("::1", False),
    ):  # fmt: skip
        assert decide(found, PUB, source=SourceAddress.parse(address)).is_allowed == is_allowed


def test_policies_need_their_user():
    policies = SubjectPolicies(Subject("bob"), entries("Allow Pub Topic:a"))
    with pytest.raises(UnknownUser, match="'bob'"):
        AccessState.of([User("alice")], [policies])
    with pytest.raises(UnknownUser, match="'bob'"):
        state().with_policies(policies)


def test_a_change_leaves_the_state_that_readers_have():
    before = state("Allow Pub Topic:a")
    account = before.find("alice")
    after = before.with_policies(SubjectPolicies(Subject("alice"), entries("Allow Sub Topic:a")))
    disabled = after.with_user(User("alice", status=UserStatus.DISABLE))
    gone = disabled.without_user("alice")

    assert decide(before, PUB).is_allowed
    assert before.find("alice") is account
    assert [decide(after, wanted).is_allowed for wanted in (PUB, SUB)] == [False, True]
    assert decide(disabled, SUB).reason is Reason.USER_DISABLED
    assert decide(gone, SUB).reason is Reason.UNKNOWN_USER
    assert [len(found) for found in (before, after, disabled, gone)] == [1, 1, 1, 0]


def test_a_changed_user_keeps_its_policies_and_a_new_user_has_none():
    found = state("Allow Pub Topic:a").with_user(User("alice", expires_ms=NOW + 1)).with_user(User("bob"))
    assert decide(found, PUB).is_allowed
    assert decide(found, PUB, name="bob").reason is Reason.NO_MATCH
    assert sorted(account.user.name for account in found) == ["alice", "bob"]


def test_a_user_that_is_created_again_has_no_policies():
    found = state("Allow Pub Topic:a").without_user("alice").with_user(User("alice"))
    assert decide(found, PUB).reason is Reason.NO_MATCH


def test_removing_an_absent_user_is_no_error():
    assert len(state().without_user("bob")) == 1


INNER = User("gantry", UserType.INNER)


@pytest.mark.parametrize("required", [AnyUser(), Open()])
@pytest.mark.parametrize("kind", list(UserType))
def test_any_enabled_user_may_send_what_needs_no_right(kind, required):
    assert decide(state(type=kind), required).is_allowed
    assert decide(state(type=kind, status=UserStatus.DISABLE), required).reason is Reason.USER_DISABLED
    assert decide(state(type=kind, expires_ms=NOW), required).reason is Reason.USER_EXPIRED
    assert decide(state(), required, name="bob").reason is Reason.UNKNOWN_USER


@pytest.mark.parametrize("required", [AnyUser(), Open()])
def test_what_needs_no_right_allows_nothing_else(required):
    assert decide(state(), required, PUB).reason is Reason.NO_MATCH
    assert decide(state("Allow Pub Topic:a"), required, PUB).is_allowed


def test_only_our_own_services_may_send_what_is_theirs():
    for kind in (UserType.SUPER, UserType.NORMAL):
        verdict = decide(state("Allow All *", type=kind), PUB, Inner())
        assert (verdict.reason, verdict.refused, verdict.is_allowed) == (Reason.NOT_INNER, Inner(), False)
    ours = AccessState.of([INNER])
    verdict = decide(ours, PUB, Inner(), name="gantry")
    assert (verdict.reason, verdict.is_allowed) == (Reason.INNER_USER, True)


@pytest.mark.parametrize("kind", list(UserType))
@pytest.mark.parametrize("required", ["Pub", None, ("Topic:a", 2)])
def test_a_requirement_of_an_unknown_kind_is_refused_for_everyone(kind, required):
    verdict = decide(state("Allow All *", type=kind), PUB, required)
    assert (verdict.reason, verdict.is_allowed) == (Reason.UNKNOWN_REQUIREMENT, False)


def test_a_record_counts_for_all_topics_until_its_topic_is_known():
    record = OfRecord(Action.SUB)
    assert decide(state("Allow Sub Topic:*"), record).is_allowed
    one = state("Allow Sub Topic:a")
    assert decide(one, record).refused == need("Sub Topic:*")
    assert decide(one, record.on("a")).is_allowed
    assert decide(state("Allow Sub Topic:*", "Deny Sub Topic:a"), record).reason is Reason.DENIED
    assert decide(state("Allow Sub *"), record.on("GANTRY_SYS_TASKS")).reason is Reason.NOT_INNER


def test_no_change_touches_or_makes_one_of_our_own_services():
    found = AccessState.of([INNER, User("alice")])
    changes = [
        lambda: found.with_user(User("gantry", UserType.SUPER)),
        lambda: found.with_user(User("alice", UserType.INNER)),
        lambda: found.with_policies(SubjectPolicies(Subject("gantry"))),
        lambda: found.without_user("gantry"),
        lambda: AccessState.of([User("gantry"), INNER]),
        lambda: AccessState.of([INNER, User("gantry")]),
    ]
    for change in changes:
        with pytest.raises(InnerUser):
            change()
