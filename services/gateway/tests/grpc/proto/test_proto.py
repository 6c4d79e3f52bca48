"""The declarations describe RocketMQ's protocol exactly, and their classes read and write its bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from gateway.grpc.proto import METHODS, SERVICE, declaring, file_descriptors
from gateway.grpc.proto.common import Address, Broker, Endpoints, MessageQueue, Resource, Status
from gateway.grpc.proto.declaring import File, Int32, ProtoMessage, build, field
from gateway.grpc.proto.duration import Duration, duration, duration_ms
from gateway.grpc.proto.enums import (
    AddressScheme,
    ClientType,
    Code,
    DigestType,
    Encoding,
    MessageType,
    Permission,
)
from gateway.grpc.proto.message import DeadLetterQueue, Digest, Message, SystemProperties
from gateway.grpc.proto.receiving import ReceiveMessageResponse
from gateway.grpc.proto.routing import QueryRouteResponse, SyncLiteSubscriptionRequest
from gateway.grpc.proto.settings import (
    ExponentialBackoff,
    Metric,
    OffsetOption,
    RetryPolicy,
    Settings,
    Subscription,
)
from gateway.grpc.proto.telemetry import TelemetryCommand
from gateway.grpc.proto.timestamp import Timestamp, timestamp, timestamp_ms

from .described import described

GOLDEN = Path(__file__).parent / "golden"
FILES = {file.name: file for file in map(FileDescriptorProto.FromString, file_descriptors())}

MESSAGE = Message(
    topic=Resource(resource_namespace="ns", name="orders"),
    user_properties={"k": "v"},
    body=b"\x00\xff",
    system_properties=SystemProperties(
        tag="",
        keys=["a", "b"],
        message_id="01AB",
        body_digest=Digest(type=DigestType.MD5, checksum="D41D"),
        body_encoding=Encoding.IDENTITY,
        message_type=MessageType.PRIORITY,
        born_timestamp=timestamp(1_700_000_000_123),
        born_host="h",
        queue_id=3,
        queue_offset=0,
        invisible_duration=duration(30_500),
        delivery_attempt=1,
        priority=0,
        dead_letter_queue=DeadLetterQueue(topic="t"),
    ),
)
ROUTE = QueryRouteResponse(
    status=Status(code=Code.OK),
    message_queues=[
        MessageQueue(
            topic=Resource(name="t"),
            permission=Permission.READ_WRITE,
            broker=Broker(
                name="b",
                endpoints=Endpoints(
                    scheme=AddressScheme.IPv4, addresses=[Address(host="127.0.0.1", port=8081)]
                ),
            ),
            accept_message_types=[1, 2, 3, 4],
        )
    ],
)
TELEMETRY = TelemetryCommand(
    status=Status(code=Code.OK),
    settings=Settings(
        client_type=ClientType.PUSH_CONSUMER,
        backoff_policy=RetryPolicy(
            max_attempts=17,
            exponential_backoff=ExponentialBackoff(initial=duration(5000), multiplier=2.0),
        ),
        subscription=Subscription(fifo=False, receive_batch_size=32),
        metric=Metric(on=False),
    ),
)
RECEIVE = ReceiveMessageResponse(delivery_timestamp=timestamp(-1))
LITE = SyncLiteSubscriptionRequest(
    lite_topic_set=["x"], version=-1, offset_option=OffsetOption(policy=OffsetOption.Policy.LAST)
)
BYTES = {  # written by RocketMQ's Python client 5.1.2
    "message": (
        MESSAGE,
        (
            "0a0c0a026e7312066f726465727312060a016b1201761a460a001201611201621a043031414222080802120444343144280130063a0b0880e2cfaa"
            "0610c0a9d33a420168680370007a08081e1080cab5ee01800101a201030a0174b00100220200ff"
        ),
    ),
    "route": (
        ROUTE,
        "0a0408a09c0112260a03120174180422170a01621a120801120e0a093132372e302e302e3110913f2a0401020304",
    ),
    "telemetry": (TELEMETRY, "0a0408a09c01121908021a0d081112090a0208051d000000403204180020204200"),
    "receive": (RECEIVE, "1a1108ffffffffffffffffff0110c08faedc03"),
    "lite": (LITE, "22017828ffffffffffffffffff0132020800"),
}


@pytest.mark.parametrize("name", ["definition", "service"])
def test_the_files_describe_the_protocol(name: str) -> None:
    """The golden files list the public definition as of July 2026."""
    golden = (GOLDEN / f"{name}.txt").read_text().splitlines()
    assert described(FILES[f"apache/rocketmq/v2/{name}.proto"]) == golden


@pytest.mark.parametrize("name", ["duration", "timestamp"])
def test_well_known_types_are_googles(name: str) -> None:
    from google.protobuf import duration_pb2, timestamp_pb2

    theirs = {"duration": duration_pb2, "timestamp": timestamp_pb2}[name].DESCRIPTOR
    ours = FILES[f"google/protobuf/{name}.proto"]
    assert described(ours) == described(FileDescriptorProto.FromString(theirs.serialized_pb))
    assert (ours.name, ours.package) == (theirs.name, theirs.package)


@pytest.mark.parametrize("name", list(BYTES))
def test_messages_have_the_bytes_of_the_official_client(name: str) -> None:
    message, text = BYTES[name]
    assert message.SerializeToString().hex() == text
    assert type(message).FromString(bytes.fromhex(text)) == message


def test_presence_oneofs_and_absent_fields() -> None:
    properties = MESSAGE.system_properties
    assert properties.HasField("priority")
    assert properties.HasField("tag")
    assert not properties.HasField("message_group")
    assert properties.message_group == ""
    assert TELEMETRY.WhichOneof("command") == "settings"
    assert TELEMETRY.settings.WhichOneof("pub_sub") == "subscription"
    assert ReceiveMessageResponse().WhichOneof("content") is None
    replaced = ReceiveMessageResponse(status=Status(code=Code.OK), message=MESSAGE)
    assert replaced.WhichOneof("content") == "message"


def test_unknown_fields_and_enum_values_survive() -> None:
    data = bytes.fromhex("0a0408b0ea01") + b"\xa2\x06\x03new"  # code 30000 and a field 100
    response = QueryRouteResponse.FromString(data)
    assert response.SerializeToString() == data
    assert Status.FromString(bytes.fromhex("08b9f606")).code == 113_465
    with pytest.raises(ValueError, match="113465"):
        Code(Status.FromString(bytes.fromhex("08b9f606")).code)


def test_bytes_that_are_no_message_are_an_error() -> None:
    with pytest.raises(DecodeError):
        Message.FromString(b"\xff")
    with pytest.raises(DecodeError):  # a string that is not UTF-8
        Resource.FromString(b"\x12\x01\xff")


def test_a_message_inside_a_message_is_not_assigned() -> None:
    response = QueryRouteResponse()
    with pytest.raises(AttributeError):
        response.status = Status(code=Code.OK)
    response.status.CopyFrom(Status(code=Code.OK))
    assert response.status.code == Code.OK


def test_the_default_pool_stays_empty() -> None:
    """RocketMQ's own generated modules, which use it, can live in this process."""
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Resource")


def test_every_call_has_its_classes() -> None:
    assert SERVICE == "apache.rocketmq.v2.MessagingService"
    assert len(METHODS) == 17
    for name, method in METHODS.items():
        assert method.request().SerializeToString() == b""
        if name != "Telemetry":
            assert method.request.DESCRIPTOR.name == f"{name}Request"
            assert method.response.DESCRIPTOR.name == f"{name}Response"
    assert {name for name, method in METHODS.items() if method.streams_responses} == {
        "ReceiveMessage",
        "PullMessage",
        "Telemetry",
    }
    assert [name for name, method in METHODS.items() if method.streams_requests] == ["Telemetry"]


def test_a_file_follows_those_that_it_needs() -> None:
    seen: set[str] = set()
    for file in map(FileDescriptorProto.FromString, file_descriptors()):
        assert set(file.dependency) <= seen
        seen.add(file.name)


def test_any_module_of_the_package_gives_built_classes() -> None:
    program = (
        "from gateway.grpc.proto.telemetry import Message; print(Message(body=b'x').SerializeToString())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )  # fmt: skip
    assert done.stdout == "b'\"\\x01x'\n"


def test_a_use_before_its_declaration_is_an_error() -> None:
    module = type(declaring)("late")

    class Late(ProtoMessage):
        number: Int32 = field(1)

    class Early(ProtoMessage):
        late: Late = field(1)

    Late.__module__ = Early.__module__ = "late"
    Early.__annotations__["late"] = Late
    module.Early, module.Late = Early, Late
    with pytest.raises(TypeError, match=r"Early uses .*Late.*, which is not declared before it"):
        build([File("late.proto", "late", [module])])


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, 1_700_000_000_123, 43_200_000])
def test_times_convert(ms: int) -> None:
    assert duration_ms(duration(ms)) == timestamp_ms(timestamp(ms)) == ms
    assert duration_ms(Duration.FromString(duration(ms).SerializeToString())) == ms


def test_times_before_1970_and_fractions_are_cut_towards_the_past() -> None:
    assert timestamp_ms(timestamp(-1)) == -1
    assert timestamp_ms(Timestamp(seconds=-1, nanos=999_999_999)) == -1
    assert timestamp_ms(Timestamp(nanos=1)) == 0
    assert duration_ms(Duration(nanos=-1)) == -1
