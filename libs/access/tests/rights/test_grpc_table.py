"""gRPC methods: every method of MessagingService has a row, every topic is checked, missing names have RocketMQ's texts."""

import pytest

from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need
from gantry_access.model.resources import Resource
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.grpc_table import METHODS, GrpcAsked, requirements_of_method


def need(kind, name, *actions):
    return Need(Resource.parse(f"{kind}:{name}"), Action.parse_all(actions))


T_PUB, T_SUB, G_SUB = need("TOPIC", "t", "PUB"), need("TOPIC", "t", "SUB"), need("GROUP", "g", "SUB")
BOTH = GrpcAsked(("t",), "g")


def test_every_method_of_the_service_has_a_row():
    assert set(METHODS) == {
        "QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "ReceiveMessage", "AckMessage",
        "ForwardMessageToDeadLetterQueue", "EndTransaction", "Telemetry", "NotifyClientTermination",
        "ChangeInvisibleDuration", "RecallMessage", "SyncLiteSubscription", "PullMessage", "UpdateOffset", "GetOffset", "QueryOffset",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "asked", "expected"),
    [
        ("SendMessage", GrpcAsked(("t", "t", "u")), [T_PUB, need("TOPIC", "u", "PUB")]),
        ("SendMessage", GrpcAsked(("%RETRY%g",)), [G_SUB]),
        ("SendMessage", GrpcAsked(("GANTRY_SYS_TASKS",)), [Inner()]),
        ("RecallMessage", BOTH, [T_PUB]),
        ("EndTransaction", BOTH, [T_PUB]),
        ("Heartbeat", GrpcAsked(group="g", client_type=1), [AnyUser()]),
        ("Heartbeat", GrpcAsked(group="g", client_type=3), [G_SUB]),
        ("Heartbeat", GrpcAsked(client_type=3), [AnyUser()]),
        ("ReceiveMessage", BOTH, [G_SUB, T_SUB]),
        ("ChangeInvisibleDuration", BOTH, [G_SUB, T_SUB]),
        ("PullMessage", BOTH, [G_SUB, T_SUB]),
        ("UpdateOffset", BOTH, [need("GROUP", "g", "SUB", "UPDATE"), need("TOPIC", "t", "SUB", "UPDATE")]),
        ("QueryOffset", BOTH, [need("TOPIC", "t", "SUB", "GET")]),
        ("QueryRoute", BOTH, [need("TOPIC", "t", "PUB", "SUB", "GET")]),
        ("NotifyClientTermination", BOTH, [G_SUB]),
        ("NotifyClientTermination", GrpcAsked(), [AnyUser()]),
        ("Telemetry", GrpcAsked(("t", "u"), command="publishing"), [T_PUB, need("TOPIC", "u", "PUB")]),
        ("Telemetry", GrpcAsked(command="publishing"), [AnyUser()]),
        ("Telemetry", GrpcAsked(("t",), "g", command="subscription"), [G_SUB, T_SUB]),
        ("Telemetry", GrpcAsked((), "g", command="subscription"), [G_SUB]),
        ("Telemetry", GrpcAsked(), [AnyUser()]),
    ],
)
def test_the_requirements_of_a_call(method, asked, expected):
    assert list(requirements_of_method(method, asked)) == expected


@pytest.mark.parametrize(
    ("method", "asked", "remark"),
    [
        ("SendMessage", GrpcAsked(), "message is null."),
        ("SendMessage", GrpcAsked(("t", "")), "topic is null."),
        ("QueryRoute", GrpcAsked(), "topic is null."),
        ("ReceiveMessage", GrpcAsked((), "g"), "messageQueue is null."),
        ("AckMessage", GrpcAsked(("t",)), "group is null."),
        ("Telemetry", GrpcAsked(("t",), command="subscription"), "group is null."),
        ("CreateTopic", BOTH, "authorization context is empty."),
    ],
)
def test_a_missing_name_or_row_is_refused_with_the_text_of_rocketmq(method, asked, remark):
    with pytest.raises(RightsRefused) as refused:
        requirements_of_method(method, asked)
    assert refused.value.remark == remark


def test_settings_of_no_kind_are_refused():
    with pytest.raises(RightsRefused, match="settings"):
        requirements_of_method("Telemetry", GrpcAsked(command="empty settings"))
