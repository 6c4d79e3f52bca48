"""plain_acl.yml of 4.9: users and entries, one message per account that is not read, one note about its addresses."""

import pytest
import yaml
from access_texts import HERE, entries, need

from gantry_access.evaluation.state import AccessState
from gantry_access.formats.plain_acl import read_plain_acl
from gantry_access.model.networks import SourceAddress
from gantry_access.model.users import UserType

FILE = """
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*
accounts:
- accessKey: RocketMQ
  secretKey: 012345678
  whiteRemoteAddress: 10.0.0-1.*
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC = SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - '%RETRY%groupB=SUB'
- accessKey: rocketmq2
  secretKey: "12345678"
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
"""


def parsed(text):
    return yaml.load(text, Loader=yaml.BaseLoader)


def read(**account):
    return read_plain_acl({"accounts": [{"accessKey": "alice", "secretKey": "s", **account}]})


def only(**account):
    found = read(**account)
    assert found.unreadable == ()
    (one,) = found.accounts
    return one


def decides(account, text, source=HERE):
    state = AccessState.of([account.user], [account.policies])
    return state.decide(account.user.name, [need(text)], source, 0).is_allowed


def test_the_sample_file_of_rocketmq_is_read():
    found = read_plain_acl(parsed(FILE))
    assert found.unreadable == ()
    normal, admin = found.accounts
    assert (normal.user.name, normal.user.type, normal.secret.reveal()) == (
        "RocketMQ",
        UserType.NORMAL,
        "012345678",
    )
    assert set(normal.policies.custom) == set(
        entries(
            "Deny All Topic:topicA",
            "Allow Pub,Sub Topic:topicB 10.0.0.0/23",
            "Allow Sub Topic:topicC 10.0.0.0/23",
            "Deny All Group:groupA",
            "Allow Sub Group:groupB 10.0.0.0/23",
        )
    )
    assert set(normal.policies.default) == set(entries("Deny All Topic:*", "Allow Sub Group:* 10.0.0.0/23"))
    assert (admin.user.type, admin.secret.reveal(), admin.policies.custom) == (UserType.SUPER, "12345678", ())
    assert "12345678" not in repr(found)
    assert found.notes == (
        "globalWhiteRemoteAddresses ['10.10.103.*', '192.168.0.*'] open nothing any more: these clients need a user and a signature",
        "user 'RocketMQ': its white addresses 10.0.0-1.* no longer replace signature and permission; its permissions count only from there",
        "user 'rocketmq2': its white addresses 192.168.1.* no longer replace signature and permission; a Super user is not limited to addresses",
    )


def test_addresses_limit_what_is_allowed_and_not_what_is_denied():
    account = only(whiteRemoteAddress="10.0.0.{5,6}", topicPerms=["a=PUB", "b=DENY"], defaultTopicPerm="PUB")
    elsewhere = SourceAddress.parse("11.0.0.1")
    assert decides(account, "Pub Topic:a")
    assert not decides(account, "Pub Topic:a", elsewhere)
    assert not decides(account, "Pub Topic:b")
    assert not decides(account, "Pub Topic:c", elsewhere)


@pytest.mark.parametrize("text", ["*", "*.*.*.*"])
def test_addresses_from_everywhere_limit_nothing(text):
    found = read(whiteRemoteAddress=text, topicPerms=["a=PUB"])
    assert found.accounts[0].policies.custom == entries("Allow Pub Topic:a")
    assert found.notes == (
        f"user 'alice': its white addresses {text} no longer replace signature and permission; its permissions count from everywhere",
    )


def test_an_account_without_addresses_has_no_note():
    for nothing in ({}, {"whiteRemoteAddress": None}, {"whiteRemoteAddress": ""}):
        assert read(**nothing).notes == ()


def test_the_permission_of_a_name_replaces_the_default_as_in_4_9():
    account = only(
        defaultTopicPerm="PUB|SUB",
        topicPerms=["a=SUB"],
        defaultGroupPerm="SUB",
        groupPerms=["g=DENY", "h=SUB"],
    )
    allowed = {
        text: decides(account, text) for text in ("Pub Topic:a", "Sub Topic:a", "Pub Topic:b", "Sub Topic:b")
    }
    assert allowed == {"Pub Topic:a": False, "Sub Topic:a": True, "Pub Topic:b": True, "Sub Topic:b": True}
    assert [decides(account, f"Sub Group:{group}") for group in "ghi"] == [False, True, True]


def test_nothing_is_allowed_where_the_file_says_nothing():
    account = only(topicPerms=["a=PUB"])
    assert not decides(account, "Sub Topic:a")
    assert not decides(account, "Pub Topic:b")
    assert not decides(account, "Sub Group:g")
    assert account.policies.default == ()


def test_of_two_permissions_of_one_name_the_last_counts():
    assert only(topicPerms=["a=PUB", "a=SUB"]).policies.custom == entries("Allow Sub Topic:a")


@pytest.mark.parametrize(
    ("account", "message"),
    [
        ({"accessKey": ""}, "account 1 was not read: the user name is blank"),
        ({"accessKey": None}, "account 1 was not read: the user name is blank"),
        ({"groupPerms": ["g=DENY", "%RETRY%g=SUB"]}, "account 1 ('alice') was not read: groupPerms has two names of Group:g"),
        ({"secretKey": ""}, "account 1 ('alice') was not read: it has no secretKey"),
        ({"secretKey": 123}, "account 1 ('alice') was not read: secretKey is not text; parse the file with every value as text"),
        ({"admin": "maybe"}, "account 1 ('alice') was not read: admin is 'maybe', not true or false"),
        ({"admin": 1}, "account 1 ('alice') was not read: admin is not text; parse the file with every value as text"),
        ({"topicPerms": ["a"]}, "account 1 ('alice') was not read: topicPerms contains 'a', not name=PERMISSION"),
        ({"topicPerms": "a=PUB"}, "account 1 ('alice') was not read: topicPerms is not a list of name=PERMISSION"),
        ({"groupPerms": ["=SUB"]}, "account 1 ('alice') was not read: the resource 'Group:' has no name"),
        (
            {"groupPerms": ["g=SUBS"]},
            "account 1 ('alice') was not read: groupPerms has the permission 'SUBS', known are PUB, SUB, PUB|SUB, SUB|PUB, DENY",
        ),
        (
            {"defaultTopicPerm": "ANY"},
            "account 1 ('alice') was not read: defaultTopicPerm has the permission 'ANY', known are PUB, SUB, PUB|SUB, SUB|PUB, DENY",
        ),
        (
            {"whiteRemoteAddress": "10.0.0.0/8"},
            "account 1 ('alice') was not read: '10.0.0.0/8' is not an address of ACL 1.0",
        ),
        (
            {"whiteRemoteAddress": "10.0.0.0/8", "admin": True},
            "account 1 ('alice') was not read: '10.0.0.0/8' is not an address of ACL 1.0",
        ),
    ],
)  # fmt: skip
def test_an_account_with_a_fault_is_left_out_whole_with_one_message(account, message):
    found = read(**account)
    assert (found.accounts, found.notes, found.unreadable) == ((), (), (message,))


def test_the_other_accounts_are_read():
    good = {"accessKey": "alice", "secretKey": "s"}
    found = read_plain_acl(
        {"accounts": ["x", good, {**good, "secretKey": "t"}, {**good, "accessKey": "bob"}]}
    )
    assert [(account.user.name, account.secret.reveal()) for account in found.accounts] == [
        ("alice", "s"),
        ("bob", "s"),
    ]
    assert found.unreadable == (
        "account 1 was not read: it is not a mapping",
        "account 3 ('alice') was not read: an earlier account has the same accessKey",
    )


@pytest.mark.parametrize(
    ("admin", "kind"),
    [(True, UserType.SUPER), ("True", UserType.SUPER), ("on", UserType.SUPER), (False, UserType.NORMAL), ("no", UserType.NORMAL), ("", UserType.NORMAL)],
)  # fmt: skip
def test_admins_are_super_users(admin, kind):
    assert only(admin=admin).user.type is kind


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not a mapping"), ([], "not a mapping"), ({"accounts": {"a": 1}}, "accounts is not a list")],
)
def test_a_file_of_another_shape_has_one_message(content, message):
    (found,) = read_plain_acl(content).unreadable
    assert message in found


def test_an_empty_list_has_no_account():
    assert read_plain_acl({"accounts": None}).accounts == read_plain_acl({}).accounts == ()
