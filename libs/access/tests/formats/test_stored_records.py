"""Records of users and policies: read as they were written, and refused whole otherwise."""

import json

import pytest
from access_texts import entries
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.errors import InnerUser, UnknownRecordVersion, UnreadableRecord
from gantry_access.formats.stored_records import decode_policies, decode_user, encode_policies, encode_user
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, User, UserStatus, UserType

USER = User("alice", UserType.SUPER, UserStatus.DISABLE, ("sealed1.old", "sealed1.new"), 1_700_000_000_000)
POLICIES = SubjectPolicies(
    Subject("alice"),
    entries("Allow Pub,Sub Topic:a* 10.0.0.0/8 2001:db8::1", "Deny All *"),
    entries("Allow Get Group:g"),
)
USER_RECORD = b'{"v":1,"user":"alice","type":"Super","status":"disable","secrets":["sealed1.old","sealed1.new"],"expiresMs":1700000000000}'
POLICIES_RECORD = (
    b'{"v":1,"subject":"User:alice","custom":[{"resource":"*","actions":["All"],"decision":"Deny","networks":[]},'
    b'{"resource":"Topic:a*","actions":["Pub","Sub"],"decision":"Allow","networks":["10.0.0.0/8","2001:db8::1"]}],'
    b'"default":[{"resource":"Group:g","actions":["Get"],"decision":"Allow","networks":[]}]}'
)


def test_a_user_is_written_and_read():
    assert encode_user(USER) == USER_RECORD
    assert decode_user(USER_RECORD) == USER
    assert decode_user(encode_user(User("bob"))) == User("bob")


def test_a_user_of_our_own_services_is_not_stored():
    with pytest.raises(InnerUser):
        encode_user(User("gantry", UserType.INNER))


def test_policies_are_written_and_read():
    assert encode_policies(POLICIES) == POLICIES_RECORD
    assert decode_policies(POLICIES_RECORD) == POLICIES


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_version_is_refused_by_its_number_whatever_the_rest_is(version):
    for decode in (decode_user, decode_policies):
        with pytest.raises(
            UnknownRecordVersion, match=f"version {version}, this process reads 1 only: update it"
        ):
            decode(json.dumps({"v": version, "new": [1]}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"v": None}, {"v": "1"}, {"v": True}, {"user": ""}, {"type": "Admin"}, {"status": None}, {"secrets": [1]}, {"type": "Inner"},
        {"secrets": ["", "", ""]}, {"expiresMs": "1"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_user_with_any_fault_is_unreadable(change):
    with pytest.raises(UnreadableRecord):
        decode_user(json.dumps({**json.loads(USER_RECORD), **change}).encode())


@pytest.mark.parametrize(
    "change",
    [{"resource": "Topics:a"}, {"actions": []}, {"actions": ["Any"]}, {"actions": ["Fly"]}, {"decision": "allow"},
     {"networks": ["10.0.0.*"]}, {"networks": None}, {"more": 1}],
)  # fmt: skip
def test_policies_with_a_fault_in_one_entry_are_unreadable(change):
    record = json.loads(POLICIES_RECORD)
    record["custom"][0] |= change
    with pytest.raises(UnreadableRecord):
        decode_policies(json.dumps(record).encode())


def test_policies_of_no_user_are_unreadable():
    with pytest.raises(UnreadableRecord, match="is not User:name"):
        decode_policies(POLICIES_RECORD.replace(b"User:alice", b"alice"))


@given(st.integers(0, len(POLICIES_RECORD) - 1), st.binary(max_size=2))
def test_a_record_that_is_cut_or_damaged_is_read_or_unreadable(at, other):
    for record, decode in ((USER_RECORD, decode_user), (POLICIES_RECORD, decode_policies)):
        for data in (record[:at], record[:at] + other + record[at + 1 :]):
            try:
                decode(data)
            except UnreadableRecord:
                continue
