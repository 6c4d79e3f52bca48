"""Names of topics and groups that gRPC clients may use."""

import pytest

from gateway.grpc.codes import Refused
from gateway.grpc.messages.checked_names import group_of, topic_of
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import Code


@pytest.mark.parametrize("name", ["orders", "a" * 127, "%DLQ%g", "%RETRY%g", "a-b_c|d%e"])
def test_a_legal_topic(name):
    assert topic_of(Resource(name=name), "") == name


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "a b", "ä", "a" * 128, "TBW102", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX", "CHECKPOINT_TOPIC",
        "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_x", "GANTRY_SYS_PROBE",
    ],
)  # fmt: skip
@pytest.mark.parametrize("namespace", ["", "ns"])
def test_an_illegal_topic_and_one_of_the_system(name, namespace):
    with pytest.raises(Refused) as caught:
        topic_of(Resource(name=name), namespace)
    assert caught.value.code == Code.ILLEGAL_TOPIC


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "g" * 121,
        "TOOLS_CONSUMER",
        "CID_RMQ_SYS_x",
        "GANTRY_GATEWAY",
        "GANTRY_SYS_x",
        "%RETRY%g",
        "%DLQ%g",
    ],
)
def test_an_illegal_group_and_one_of_the_system(name):
    with pytest.raises(Refused) as caught:
        group_of(Resource(name=name), "")
    assert caught.value.code == Code.ILLEGAL_CONSUMER_GROUP


def test_names_have_their_namespace():
    assert topic_of(Resource(name="orders"), "ns") == "ns%orders"
    assert group_of(Resource(resource_namespace="own", name="g"), "ns") == "own%g"
    with pytest.raises(Refused):
        topic_of(Resource(name="a" * 126), "ns")


@pytest.mark.parametrize("namespace", ["rmq_sys_a", "GANTRY_SYS_a"])
def test_a_namespace_makes_no_topic_of_the_system(namespace):
    with pytest.raises(Refused) as caught:
        topic_of(Resource(resource_namespace=namespace, name="orders"), "")
    assert caught.value.code == Code.ILLEGAL_TOPIC


@pytest.mark.parametrize("namespace", ["%RETRY", "%DLQ", "CID_RMQ_SYS_a", "GANTRY_SYS_a"])
def test_a_namespace_makes_no_group_of_the_system(namespace):
    with pytest.raises(Refused) as caught:
        group_of(Resource(resource_namespace=namespace, name="g"), "")
    assert caught.value.code == Code.ILLEGAL_CONSUMER_GROUP
