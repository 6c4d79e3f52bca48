"""Requests and responses about routes and the life of clients."""

from typing import Annotated

from gateway.grpc.proto.common import Assignment, Endpoints, MessageQueue, Resource, Status
from gateway.grpc.proto.declaring import Int64, ProtoMessage, field, optional
from gateway.grpc.proto.enums import ClientType, LiteSubscriptionAction
from gateway.grpc.proto.settings import OffsetOption


class QueryRouteRequest(ProtoMessage):
    """The request of QueryRoute."""

    topic: Resource = field(1)
    endpoints: Endpoints = field(2)


class QueryRouteResponse(ProtoMessage):
    """The response of QueryRoute."""

    status: Status = field(1)
    message_queues: list[MessageQueue] = field(2)


class QueryAssignmentRequest(ProtoMessage):
    """The request of QueryAssignment."""

    topic: Resource = field(1)
    group: Resource = field(2)
    endpoints: Endpoints = field(3)


class QueryAssignmentResponse(ProtoMessage):
    """The response of QueryAssignment."""

    status: Status = field(1)
    assignments: list[Assignment] = field(2)


class HeartbeatRequest(ProtoMessage):
    """The request of Heartbeat."""

    group: Resource = optional(1)
    client_type: Annotated[int, ClientType] = field(2)


class HeartbeatResponse(ProtoMessage):
    """The response of Heartbeat."""

    status: Status = field(1)


class NotifyClientTerminationRequest(ProtoMessage):
    """The request of NotifyClientTermination."""

    group: Resource = optional(1)


class NotifyClientTerminationResponse(ProtoMessage):
    """The response of NotifyClientTermination."""

    status: Status = field(1)


class SyncLiteSubscriptionRequest(ProtoMessage):
    """The request of SyncLiteSubscription."""

    action: Annotated[int, LiteSubscriptionAction] = field(1)
    topic: Resource = field(2)
    group: Resource = field(3)
    lite_topic_set: list[str] = field(4)
    version: Int64 = optional(5)
    offset_option: OffsetOption = optional(6)


class SyncLiteSubscriptionResponse(ProtoMessage):
    """The response of SyncLiteSubscription."""

    status: Status = field(1)
