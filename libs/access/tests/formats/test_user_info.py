"""RocketMQ's UserInfo: what an admin request may say of a user, and the answers without passwords."""

import json

import pytest

from gantry_access.formats.refused_change import RefusedChange
from gantry_access.formats.user_info import read_new_user, read_user_change, write_user, write_users
from gantry_access.model.users import User, UserStatus, UserType


def body(**fields):
    return json.dumps(fields).encode()


def test_a_create_request_of_mqadmin_is_read():
    found = read_new_user(body(username="alice", password="12345678", userType="Super"), "alice")
    assert (found.name, found.password and found.password.reveal(), found.type, found.status) == (
        "alice",
        "12345678",
        UserType.SUPER,
        None,
    )
    assert "12345678" not in repr(found)


def test_the_name_of_the_header_counts():
    assert read_new_user(body(username="bob", password="p"), "alice").name == "alice"


@pytest.mark.parametrize("password", [None, "", "  "])
def test_a_new_user_needs_a_password(password):
    with pytest.raises(RefusedChange) as caught:
        read_new_user(body(password=password), "alice")
    assert (caught.value.code, caught.value.remark) == (16, "password can not be blank")


def test_an_update_changes_only_what_is_not_blank():
    found = read_user_change(body(password=" ", userType="", userStatus="DISABLE"), "alice")
    assert (found.password, found.type, found.status) == (None, None, UserStatus.DISABLE)
    assert read_user_change(b"{}", "alice") == read_user_change(body(userType=None), "alice")


@pytest.mark.parametrize("name", ["", " "])
def test_a_blank_name_is_refused(name):
    with pytest.raises(RefusedChange) as caught:
        read_user_change(b"{}", name)
    assert (caught.value.code, caught.value.remark) == (29, "The username is blank")


@pytest.mark.parametrize(
    ("data", "name", "code", "message"),
    [
        (body(userType="Supper"), "alice", 29, "user type 'Supper' is unknown, it is Super or Normal"),
        (body(userStatus="off"), "alice", 29, "user status 'off' is unknown, it is enable or disable"),
        (b"{}", "a\n", 29, "control character"),
        (b"", "alice", 1, "JSON|UserInfo"),
        (b"[]", "alice", 1, "UserInfo"),
        (b"{", "alice", 1, "JSON|UserInfo"),
    ],
)  # fmt: skip
def test_other_faults_are_refused_with_the_reason(data, name, code, message):
    with pytest.raises(RefusedChange, match=message) as caught:
        read_user_change(data, name)
    assert caught.value.code == code


def test_no_answer_contains_a_secret():
    user = User("alice", UserType.SUPER, UserStatus.DISABLE, (b"sealed",))
    fields = {"username": "alice", "userType": "Super", "userStatus": "disable"}
    assert json.loads(write_user(user)) == fields
    assert json.loads(write_users([user, User("bob")])) == [
        fields,
        {"username": "bob", "userType": "Normal", "userStatus": "enable"},
    ]


@pytest.mark.parametrize("kind", ["Inner", "inner", "INNER"])
def test_no_request_makes_one_of_our_own_services(kind):
    with pytest.raises(RefusedChange, match="unknown, it is Super or Normal"):
        read_new_user(body(username="alice", password="p", userType=kind), "alice")
