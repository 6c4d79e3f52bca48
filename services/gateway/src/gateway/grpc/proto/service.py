"""MessagingService: its files, messages and calls, built when the package is first imported."""

from typing import NamedTuple, cast

from gateway.grpc.proto import (
    common,
    duration,
    enums,
    message,
    pulling,
    receiving,
    routing,
    sending,
    settings,
    telemetry,
    timestamp,
)
from gateway.grpc.proto.declaring import File, ProtoMessage, Rpc, Service, build

PACKAGE = "apache.rocketmq.v2"
SERVICE = f"{PACKAGE}.MessagingService"


def _unary(name: str) -> Rpc:
    return Rpc(name, f"{name}Request", f"{name}Response")


def _streaming(name: str) -> Rpc:
    return _unary(name)._replace(streams_responses=True)


_RPCS = (
    _unary("QueryRoute"),
    _unary("Heartbeat"),
    _unary("SendMessage"),
    _unary("QueryAssignment"),
    _streaming("ReceiveMessage"),
    _unary("AckMessage"),
    _unary("ForwardMessageToDeadLetterQueue"),
    _streaming("PullMessage"),
    _unary("UpdateOffset"),
    _unary("GetOffset"),
    _unary("QueryOffset"),
    _unary("EndTransaction"),
    Rpc("Telemetry", "TelemetryCommand", "TelemetryCommand", streams_requests=True, streams_responses=True),
    _unary("NotifyClientTermination"),
    _unary("ChangeInvisibleDuration"),
    _unary("RecallMessage"),
    _unary("SyncLiteSubscription"),
)
_CALLS = (routing, sending, receiving, pulling, telemetry)
_DESCRIPTORS = build(
    (
        File("google/protobuf/timestamp.proto", "google.protobuf", (timestamp,)),
        File("google/protobuf/duration.proto", "google.protobuf", (duration,)),
        File("apache/rocketmq/v2/definition.proto", PACKAGE, (enums, common, message, settings)),
        File("apache/rocketmq/v2/service.proto", PACKAGE, _CALLS, Service("MessagingService", _RPCS)),
    )
)


class Method(NamedTuple):
    """One call of the service: its path is `/SERVICE/name`."""

    name: str
    request: type[ProtoMessage]
    response: type[ProtoMessage]
    streams_requests: bool
    streams_responses: bool


def _class(name: str) -> type[ProtoMessage]:
    return cast("type[ProtoMessage]", next(vars(module)[name] for module in _CALLS if name in vars(module)))


METHODS = {
    rpc.name: Method(
        rpc.name, _class(rpc.request), _class(rpc.response), rpc.streams_requests, rpc.streams_responses
    )
    for rpc in _RPCS
}


def file_descriptors() -> list[bytes]:
    """Return the FileDescriptorProto of each file, serialized; a file follows those that it needs."""
    return list(_DESCRIPTORS)
