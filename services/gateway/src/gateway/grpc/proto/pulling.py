"""Requests and responses of consumers that pull by offset."""

from typing import Annotated

from gateway.grpc.proto.common import FilterExpression, MessageQueue, Resource, Status
from gateway.grpc.proto.declaring import Int32, Int64, ProtoMessage, field, member, optional
from gateway.grpc.proto.duration import Duration
from gateway.grpc.proto.enums import QueryOffsetPolicy
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.timestamp import Timestamp


class PullMessageRequest(ProtoMessage):
    """The request of PullMessage."""

    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    offset: Int64 = field(3)
    batch_size: Int32 = field(4)
    filter_expression: FilterExpression = field(5)
    long_polling_timeout: Duration = field(6)


class PullMessageResponse(ProtoMessage):
    """The response of PullMessage."""

    status: Status = member(1, "content")
    message: Message = member(2, "content")
    next_offset: Int64 = member(3, "content")


class UpdateOffsetRequest(ProtoMessage):
    """The request of UpdateOffset."""

    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    offset: Int64 = field(3)


class UpdateOffsetResponse(ProtoMessage):
    """The response of UpdateOffset."""

    status: Status = field(1)


class GetOffsetRequest(ProtoMessage):
    """The request of GetOffset."""

    group: Resource = field(1)
    message_queue: MessageQueue = field(2)


class GetOffsetResponse(ProtoMessage):
    """The response of GetOffset."""

    status: Status = field(1)
    offset: Int64 = field(2)


class QueryOffsetRequest(ProtoMessage):
    """The request of QueryOffset."""

    message_queue: MessageQueue = field(1)
    query_offset_policy: Annotated[int, QueryOffsetPolicy] = field(2)
    timestamp: Timestamp = optional(3)


class QueryOffsetResponse(ProtoMessage):
    """The response of QueryOffset."""

    status: Status = field(1)
    offset: Int64 = field(2)
