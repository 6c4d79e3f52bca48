"""Users and subjects."""

import pytest

from gantry_access.errors import IllegalUser, MalformedSubject
from gantry_access.model.users import Subject, User, UserStatus, UserType


def test_a_new_user_is_normal_enabled_and_for_ever():
    user = User("alice")
    assert (user.type, user.status, user.secrets) == (UserType.NORMAL, UserStatus.ENABLE, ())
    assert not user.is_super
    assert not user.is_disabled
    assert not user.has_expired(10**18)
    assert user.subject == Subject("alice")


def test_a_user_expires_at_its_instant():
    user = User("alice", expires_ms=1000)
    assert not user.has_expired(999)
    assert user.has_expired(1000)


def test_a_user_has_two_secrets_at_most_and_does_not_show_them():
    user = User("alice", secrets=("old", "new"))
    assert "old" not in repr(user)
    with pytest.raises(IllegalUser, match="more than 2 secrets"):
        User("alice", secrets=("a", "b", "c"))


@pytest.mark.parametrize("name", ["a", "ab c", "名", "x" * 255, "a:b", "%"])
def test_legal_names(name):
    assert Subject.parse(User(name).subject.text).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "blank"),
        (" \t", "blank"),
        ("x" * 256, "256 characters, the limit is 255"),
        ("a\nb", "control character"),
    ],
)
def test_illegal_names_are_refused_with_the_rule(name, message):
    with pytest.raises(IllegalUser, match=message):
        User(name)
    with pytest.raises(MalformedSubject, match=message):
        Subject.parse(f"User:{name}")


def test_the_type_of_a_subject_is_read_in_any_case():
    assert Subject.parse("user:Alice").text == "User:Alice"


@pytest.mark.parametrize("text", ["", "alice", "Role:alice", "User", ":alice"])
def test_other_texts_are_no_subject(text):
    with pytest.raises(MalformedSubject, match="is not User:name"):
        Subject.parse(text)
