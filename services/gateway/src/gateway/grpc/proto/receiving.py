"""Requests and responses of consumers that lease messages."""

from gateway.grpc.proto.common import FilterExpression, MessageQueue, Resource, Status
from gateway.grpc.proto.declaring import Int32, ProtoMessage, field, member, optional
from gateway.grpc.proto.duration import Duration
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.timestamp import Timestamp


class ReceiveMessageRequest(ProtoMessage):
    """The request of ReceiveMessage."""

    group: Resource = field(1)
    message_queue: MessageQueue = field(2)
    filter_expression: FilterExpression = field(3)
    batch_size: Int32 = field(4)
    invisible_duration: Duration = optional(5)
    auto_renew: bool = field(6)
    long_polling_timeout: Duration = optional(7)
    attempt_id: str = optional(8)


class ReceiveMessageResponse(ProtoMessage):
    """The response of ReceiveMessage."""

    status: Status = member(1, "content")
    message: Message = member(2, "content")
    delivery_timestamp: Timestamp = member(3, "content")


class AckMessageEntry(ProtoMessage):
    """A delivery to acknowledge."""

    message_id: str = field(1)
    receipt_handle: str = field(2)
    lite_topic: str = optional(3)


class AckMessageRequest(ProtoMessage):
    """The request of AckMessage."""

    group: Resource = field(1)
    topic: Resource = field(2)
    entries: list[AckMessageEntry] = field(3)


class AckMessageResultEntry(ProtoMessage):
    """The result of one acknowledgement."""

    message_id: str = field(1)
    receipt_handle: str = field(2)
    status: Status = field(3)


class AckMessageResponse(ProtoMessage):
    """The response of AckMessage."""

    status: Status = field(1)
    entries: list[AckMessageResultEntry] = field(2)


class ChangeInvisibleDurationRequest(ProtoMessage):
    """The request of ChangeInvisibleDuration."""

    group: Resource = field(1)
    topic: Resource = field(2)
    receipt_handle: str = field(3)
    invisible_duration: Duration = field(4)
    message_id: str = field(5)
    lite_topic: str = optional(6)
    suspend: bool = optional(7)


class ChangeInvisibleDurationResponse(ProtoMessage):
    """The response of ChangeInvisibleDuration."""

    status: Status = field(1)
    receipt_handle: str = field(2)


class ForwardMessageToDeadLetterQueueRequest(ProtoMessage):
    """The request of ForwardMessageToDeadLetterQueue."""

    group: Resource = field(1)
    topic: Resource = field(2)
    receipt_handle: str = field(3)
    message_id: str = field(4)
    delivery_attempt: Int32 = field(5)
    max_delivery_attempts: Int32 = field(6)
    lite_topic: str = optional(7)


class ForwardMessageToDeadLetterQueueResponse(ProtoMessage):
    """The response of ForwardMessageToDeadLetterQueue."""

    status: Status = field(1)
