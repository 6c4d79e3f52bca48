"""A request that is answered later is decided again: with the users and policies of that moment, and only if any has changed."""

import pytest
from guarded import NOW_MS, Guarded, policy, signed, table, user

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, UserStatus
from gantry_guard.callers import ADMITTED
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder

PULL = {
    "topic": "orders", "consumerGroup": "readers", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
    "sysFlag": "2", "commitOffset": "0", "suspendTimeoutMillis": "30000", "subscription": "*", "subVersion": "0",
}  # fmt: skip
MAY_PULL = "Allow Sub Topic:orders", "Allow Sub Group:readers"


class Peer:
    """The end of a connection."""

    def __init__(self):
        self.remote, self.attributes = ("10.0.0.7", 4000), {}


def pull(guarded, fields=PULL):
    """Admit one signed pull, and return what it was admitted for."""
    peer = Peer()
    (raw,) = FrameDecoder().receive(encode_request(11, 1, signed(fields)))
    assert guarded.door.admit(peer, raw)
    return peer.attributes.get(ADMITTED)


def put(access, entry):
    assert access.take([entry]), "it is news"


def policies(*texts, stamp=5):
    return policies_entry(SubjectPolicies(Subject("alice"), tuple(map(policy, texts))), stamp)


def test_without_a_change_nothing_is_decided_again():
    access = table(*MAY_PULL)
    guarded = Guarded(access)
    admitted = pull(guarded)
    assert admitted.refusal() is None
    assert guarded.counts() == {"allowed": 1}


@pytest.mark.parametrize(
    ("entry", "words", "reason"),
    [
        (policies("Allow Sub Topic:orders"), "no permission", "no_match"),
        (policies("Deny Sub Topic:orders", "Allow Sub Group:readers"), "no permission", "denied"),
        (policies(*(f"{text} 10.1.0.0/16" for text in MAY_PULL)), "no permission", "no_match"),
        (user_entry(user(status=UserStatus.DISABLE), 5), "User:alice is disabled.", "user_disabled"),
        (user_entry(user(expires_ms=NOW_MS - 1), 5), "expired", "user_expired"),
        (user_entry(user(secret="another secret"), 5), "check signature failed.", "wrong_signature"),
    ],
)
def test_a_change_that_takes_the_right_away_refuses_the_answer(entry, words, reason):
    access = table(*MAY_PULL)
    guarded = Guarded(access)
    admitted = pull(guarded)
    put(access, entry)
    refusal = admitted.refusal()
    assert refusal.code == 16
    assert words in str(refusal)
    assert guarded.counts() == {"allowed": 1, reason: 1}


def test_a_deleted_user_gets_no_answer():
    access = table(*MAY_PULL)
    admitted = pull(Guarded(access))
    access.take(access.deletions("alice", NOW_MS))
    assert admitted.refusal().code == 16


def test_a_user_that_expires_without_a_change_gets_no_answer():
    access = table(*MAY_PULL, users=[user(expires_ms=NOW_MS + 1000)])
    guarded = Guarded(access)
    admitted = pull(guarded)
    admitted._now_ms = lambda: NOW_MS + 1000
    assert "expired" in str(admitted.refusal())


def test_a_change_of_others_or_a_second_secret_refuses_nothing():
    access = table(*MAY_PULL)
    admitted = pull(Guarded(access))
    put(access, user_entry(user(name="bob"), 5))
    assert admitted.refusal() is None
    put(access, user_entry(user(), 6))
    assert admitted.refusal() is None, "the same secret, sealed again"


def test_the_permissive_mode_answers_and_notes():
    access = table(*MAY_PULL)
    guarded = Guarded(access, is_permissive=True)
    admitted = pull(guarded)
    put(access, policies("Deny Sub Topic:orders"))
    assert admitted.refusal() is None
    assert guarded.counts("access_permitted") == {"denied": 1}


def test_other_requests_and_refused_ones_leave_nothing_to_decide():
    guarded = Guarded(table("Allow Pub Topic:orders"), is_permissive=True)
    assert pull(guarded) is None, "it was permitted without the right"


def test_a_user_that_a_certificate_proves_needs_no_secret():
    access = table(*MAY_PULL, users=[user()])
    guarded = Guarded(access)
    (raw,) = FrameDecoder().receive(encode_request(11, 1, signed(PULL)))
    peer = Peer()
    assert guarded.door.admit(peer, raw)
    admitted = peer.attributes[ADMITTED]
    admitted._keys = None  # as the door makes it for a request without a signature
    put(access, user_entry(user(secret="another secret"), 5))
    assert admitted.refusal() is None
