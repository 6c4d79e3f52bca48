"""The table of entries: the same in whatever order they come, and what they mean."""

import pytest
from access_texts import HERE, entries, need
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_access.entries.contents import policies_entry, token_entry, user_entry
from gantry_access.entries.entry import Entry, Key, Kind
from gantry_access.entries.table import DAY_MS, TOKEN_DAYS_MAX, AccessTable
from gantry_access.errors import UnreadableRecord
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, User, UserStatus
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.signatures.remoting import is_signed, sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_access.tokens.stored_token import StoredToken

KEYS = SealingKeys({"k": b"k" * 32}, "k")
OTHER_KEYS = SealingKeys({"other": b"o" * 32}, "other")
NAMES = ("alice", "bob")


def table():
    return AccessTable(KEYS)


def sealed(name, secret, nonce=b"n" * 12, keys=KEYS):
    return keys.seal(name, HiddenText(secret), nonce)


def policies(name, *texts):
    return SubjectPolicies(Subject(name), entries(*texts))


def token(number, user="alice", expires_ms=10**6, digest=None):
    return StoredToken(f"t{number}", user, digest or bytes([number]) * 32, (), 5, expires_ms)


def may(found, name, text="Pub Topic:a", now_ms=10):
    return found.state.decide(name, [need(text)], HERE, now_ms).is_allowed


USERS = st.builds(
    lambda name, status, stamp: user_entry(User(name, status=status), stamp),
    st.sampled_from(NAMES),
    st.sampled_from(UserStatus),
    st.integers(0, 4),
)
POLICIES = st.builds(
    lambda name, text, stamp: policies_entry(policies(name, text), stamp),
    st.sampled_from(NAMES),
    st.sampled_from(["Allow Pub Topic:a", "Deny Pub Topic:a"]),
    st.integers(0, 4),
)
TOKENS = st.builds(
    lambda number, user, digest, stamp: token_entry(token(number, user, digest=digest), stamp),
    st.integers(0, 2),
    st.sampled_from(NAMES),
    st.sampled_from([b"x" * 32, b"y" * 32]),
    st.integers(0, 4),
)
DELETIONS = st.builds(
    lambda kind, name, stamp: Entry(kind, name, stamp, None),
    st.sampled_from(Kind),
    st.sampled_from([*NAMES, "t0", "t1"]),
    st.integers(0, 4),
)
ANY = st.lists(USERS | POLICIES | TOKENS | DELETIONS, max_size=12)


def meaning(found):
    accounts = {account.user.name: (account.user, account.policies) for account in found.state}
    return accounts, {one.id: one for one in found.tokens()}, {entry.key: entry for entry in found.entries()}


@settings(deadline=None)
@given(ANY, st.randoms())
def test_the_order_of_entries_and_how_often_they_come_do_not_matter(given_entries, rng):
    once, shuffled, together = table(), table(), table()
    for entry in given_entries:
        once.take([entry])
    again = given_entries * 2
    rng.shuffle(again)
    for entry in again:
        shuffled.take([entry])
    together.take(again)
    assert meaning(once) == meaning(shuffled) == meaning(together)
    fresh = AccessTable(KEYS)
    fresh.take(once.entries())
    assert meaning(fresh) == meaning(once)


@settings(deadline=None)
@given(st.lists(ANY, max_size=5))
def test_a_follower_that_asks_from_its_version_has_the_same(batches):
    leader, follower, version = table(), table(), 0
    for batch in batches:
        news = leader.take(batch)
        assert all(leader.find(entry.key) == entry for entry in news)
        follower.take(leader.since(version))
        version = leader.version
        assert meaning(follower) == meaning(leader)
    assert leader.since(version) == []


def test_policies_count_once_their_user_exists_and_only_then():
    found = table()
    found.take([policies_entry(policies("alice", "Allow Pub Topic:a"), 1)])
    assert not may(found, "alice")
    assert list(found.policies()) == []
    found.take([user_entry(User("alice"), 1)])
    assert may(found, "alice")
    assert [one.subject.name for one in found.policies()] == ["alice"]
    found.take([user_entry(User("alice", status=UserStatus.DISABLE), 2)])
    assert not may(found, "alice")


def test_a_user_made_again_inherits_nothing():
    found = table()
    found.take(
        [
            user_entry(User("alice"), 1),
            policies_entry(policies("alice", "Allow Pub Topic:a"), 1),
            token_entry(token(1), 1),
        ]
    )
    gone = found.deletions("alice", 2)
    assert {entry.key for entry in gone} == {
        Key(Kind.USER, "alice"),
        Key(Kind.POLICIES, "alice"),
        Key(Kind.TOKEN, "t1"),
    }
    found.take(gone)
    assert found.token(bytes([1]) * 32) is None
    assert found.deletions("alice", 3) == []
    found.take([user_entry(User("alice"), 4)])
    assert not may(found, "alice")


def test_a_stamp_is_above_the_one_before_even_if_the_clock_went_back():
    found = table()
    assert found.next_stamp(Key(Kind.USER, "alice"), 7) == 7
    found.take([user_entry(User("alice"), 1000)])
    assert found.next_stamp(Key(Kind.USER, "alice"), 7) == 1001


def test_nothing_changes_if_one_record_is_unreadable():
    found = table()
    with pytest.raises(UnreadableRecord):
        found.take([user_entry(User("alice"), 1), Entry(Kind.USER, "bob", 1, b'{"v":1}')])
    assert found.version == 0
    assert meaning(found) == ({}, {}, {})


def test_a_record_of_another_name_is_unreadable():
    record = user_entry(User("alice"), 1).record
    with pytest.raises(UnreadableRecord, match="holds the record of 'alice'"):
        table().take([Entry(Kind.USER, "bob", 1, record)])


def test_requests_signed_with_either_live_secret_are_signed_and_a_removed_one_no_longer_is():
    found = table()
    found.take([user_entry(User("alice", secrets=(sealed("alice", "old"), sealed("alice", "new"))), 1)])
    by_old, by_new = (sign({"a": "1"}, b"", "alice", SigningKey(secret)) for secret in ("old", "new"))
    assert is_signed(by_old, b"", found.signing_keys("alice"))
    assert is_signed(by_new, b"", found.signing_keys("alice"))
    found.take([user_entry(User("alice", secrets=(sealed("alice", "new"),)), 2)])
    assert not is_signed(by_old, b"", found.signing_keys("alice"))
    assert is_signed(by_new, b"", found.signing_keys("alice"))
    found.take(found.deletions("alice", 3))
    assert found.signing_keys("alice") == ()
    assert found.signing_keys("nobody") == ()


def test_a_secret_sealed_by_another_key_refuses_its_user_alone():
    found = table()
    found.take(
        [
            user_entry(User("alice", secrets=(sealed("alice", "s", keys=OTHER_KEYS),)), 1),
            user_entry(User("bob", secrets=(sealed("bob", "s"),)), 1),
        ]
    )
    assert found.signing_keys("alice") == ()
    assert len(found.signing_keys("bob")) == 1
    assert set(found.unopened()) == {"alice"}


def test_ended_tokens_are_forgotten_a_year_later_and_deletions_of_users_never():
    found = table()
    found.take(
        [
            user_entry(User("alice"), 1),
            token_entry(token(1, expires_ms=DAY_MS), 1),
            token_entry(token(2, expires_ms=3 * DAY_MS), 1),
        ]
    )
    found.take([Entry(Kind.TOKEN, "t3", 2, None)])
    found.take(found.deletions("alice", 2)[:1])
    year = TOKEN_DAYS_MAX * DAY_MS
    assert found.forget(year) == []
    assert set(found.forget(2 * DAY_MS + year)) == {Key(Kind.TOKEN, "t1"), Key(Kind.TOKEN, "t3")}
    assert found.token(bytes([1]) * 32) is None
    assert found.token(bytes([2]) * 32) is not None
    assert found.find(Key(Kind.USER, "alice")).record is None
    assert found.forget(10**15) == [Key(Kind.TOKEN, "t2")]
    assert found.find(Key(Kind.USER, "alice")).record is None


@given(st.lists(st.one_of(USERS, POLICIES), max_size=12), st.integers(0, 12), st.integers(1, 400))
def test_pages_together_are_what_came_after_a_version(changes, version, bytes_max):
    found = table()
    found.take(changes)
    expected, read, at = found.since(version), [], version
    while at < found.version:
        page, following = found.page(at, bytes_max)
        assert following > at
        assert len(page) <= 1 or sum(len(one.record) for one in page) <= bytes_max
        read += page
        at = following
    assert read == expected
    assert found.page(found.version, bytes_max) == ([], found.version)
