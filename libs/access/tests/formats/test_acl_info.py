"""RocketMQ's AclInfo: policies in, with its texts for what is wrong, and out again."""

import json

import pytest
from access_texts import entries

from gantry_access.formats.acl_info import read_acl, read_policy_type, read_resource, write_acl, write_acls
from gantry_access.formats.refused_change import RefusedChange
from gantry_access.limits import NETWORKS_PER_ENTRY_MAX
from gantry_access.model.policies import PolicyType, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject

GOOD = {
    "resource": "Topic:orders",
    "actions": ["Pub", "Sub"],
    "sourceIps": ["10.0.0.0/8"],
    "decision": "Allow",
}


def acl(*entry_infos, subject="User:alice", kind="Custom"):
    policies = [{"policyType": kind, "entries": list(entry_infos)}]
    return json.dumps({"subject": subject, "policies": policies}).encode()


def read(data, subject="User:alice"):
    return read_acl(data, subject)


def test_a_request_of_mqadmin_is_read():
    found = read(
        acl(GOOD, {**GOOD, "resource": "Group:*", "actions": ["all"], "sourceIps": None, "decision": "deny"})
    )
    assert found.subject == Subject("alice")
    assert (
        found.custom
        == SubjectPolicies(
            Subject("alice"), entries("Allow Pub,Sub Topic:orders 10.0.0.0/8", "Deny All Group:*")
        ).custom
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Custom", PolicyType.CUSTOM), ("default", PolicyType.DEFAULT), (None, PolicyType.CUSTOM), ("", PolicyType.CUSTOM)],
)  # fmt: skip
def test_the_policy_type_is_custom_unless_it_says_default(kind, expected):
    assert len(read(acl(GOOD, kind=kind)).of(expected)) == 1
    assert read_policy_type(kind) is expected


def test_the_subject_of_the_body_counts_before_the_headers():
    assert read(acl(GOOD, subject="User:bob")).subject.name == "bob"
    assert read(acl(GOOD, subject=None)).subject.name == "alice"


@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"resource": None}, "The resource is null."),
        ({"resource": "Topics:a"}, "The resource is null."),
        ({"resource": "Any:zzz"}, "The resource is null."),
        ({"actions": []}, "The actions is empty."),
        ({"actions": None}, "The actions is empty."),
        ({"actions": ["Pub", "Any"]}, "The actions can not be Any."),
        ({"sourceIps": ["10.0.0.1", " "]}, "The source ip is empty."),
        ({"sourceIps": ["10.0.0.1", "10.0.0.*"]}, "The source ip is invalid."),
        ({"decision": None}, "The decision is null or illegal."),
        ({"decision": "Permit"}, "The decision is null or illegal."),
        ({"resource": "a", "actions": [], "sourceIps": ["x"], "decision": ""}, "The resource is null."),
        ({"actions": [], "sourceIps": ["x"], "decision": ""}, "The actions is empty."),
        ({"sourceIps": ["x"], "decision": ""}, "The source ip is invalid."),
    ],
)
def test_a_fault_of_an_entry_has_rocketmqs_text(changed, remark):
    with pytest.raises(RefusedChange) as caught:
        read(acl(GOOD, {**GOOD, **changed}))
    assert (caught.value.code, caught.value.remark) == (16, remark)


@pytest.mark.parametrize("data", [acl(), b"{}", b'{"policies":[]}', b'{"policies":null}'])
def test_a_request_without_entries_is_refused(data):
    with pytest.raises(RefusedChange) as caught:
        read(data)
    assert (caught.value.code, caught.value.remark) == (16, "The policies is empty.")


@pytest.mark.parametrize("subject", ["", "alice", "Role:alice", "User:"])
def test_a_subject_that_is_no_user_is_refused(subject):
    with pytest.raises(RefusedChange) as caught:
        read(acl(GOOD, subject=""), subject)
    assert (caught.value.code, caught.value.remark) == (16, "The subject type is null.")


def test_an_unknown_action_is_refused_where_rocketmq_drops_it():
    with pytest.raises(RefusedChange, match="the action 'Publish' is unknown") as caught:
        read(acl({**GOOD, "actions": ["Sub", "Publish"]}))
    assert caught.value.code == 16


def test_an_unknown_policy_type_is_refused_where_rocketmq_takes_it_for_custom():
    with pytest.raises(RefusedChange, match="'Standard' is unknown, it is Custom or Default") as caught:
        read(acl(GOOD, kind="Standard"))
    assert caught.value.code == 16


def test_limits_are_refused_with_their_reason():
    many = [f"10.0.{number // 256}.{number % 256}" for number in range(NETWORKS_PER_ENTRY_MAX + 1)]
    with pytest.raises(RefusedChange, match="the limit is 1000"):
        read(acl({**GOOD, "sourceIps": many}))
    with pytest.raises(RefusedChange, match="the limit is 10000"):
        read(acl(*[{**GOOD, "resource": f"Topic:t{number}"} for number in range(10_001)]))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"policies":[{"entries":[{"actions":{}}]}]}'])
def test_a_body_of_another_shape_is_refused_with_code_1(data):
    with pytest.raises(RefusedChange) as caught:
        read(data)
    assert caught.value.code == 1


def test_what_was_read_is_written_with_rocketmqs_names():
    data = write_acl(SubjectPolicies(Subject("alice"), entries("Allow Sub,Pub Topic:orders 10.0.0.0/8")))
    policies = [{"policyType": "Custom", "entries": [GOOD]}]
    assert json.loads(data) == {"subject": "User:alice", "policies": policies}
    assert read_acl(data, "").custom == entries("Allow Pub,Sub Topic:orders 10.0.0.0/8")


def test_an_entry_from_everywhere_has_no_source_ips():
    found = SubjectPolicies(Subject("alice"), default=entries("Deny All *"))
    entry = {"resource": "*", "actions": ["All"], "decision": "Deny"}
    expected = {"subject": "User:alice", "policies": [{"policyType": "Default", "entries": [entry]}]}
    assert json.loads(write_acls([found, SubjectPolicies(Subject("bob"))])) == [
        expected,
        {"subject": "User:bob", "policies": []},
    ]


def test_the_resource_of_a_delete_request():
    assert read_resource("Topic:a*") == Resource.parse("Topic:a*")
    with pytest.raises(RefusedChange, match="The resource is null"):
        read_resource(None)
