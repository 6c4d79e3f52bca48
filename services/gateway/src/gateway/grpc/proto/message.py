"""Messages as producers send them and consumers receive them."""

from typing import Annotated

from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.declaring import Int32, Int64, ProtoMessage, field, optional
from gateway.grpc.proto.duration import Duration
from gateway.grpc.proto.enums import DigestType, Encoding, MessageType
from gateway.grpc.proto.timestamp import Timestamp


class Digest(ProtoMessage):
    """A checksum of a body."""

    type: Annotated[int, DigestType] = field(1)
    checksum: str = field(2)


class DeadLetterQueue(ProtoMessage):
    """Where a dead letter came from."""

    topic: str = field(1)
    message_id: str = field(2)


class SystemProperties(ProtoMessage):
    """What the protocol knows about a message."""

    tag: str = optional(1)
    keys: list[str] = field(2)
    message_id: str = field(3)
    body_digest: Digest = field(4)
    body_encoding: Annotated[int, Encoding] = field(5)
    message_type: Annotated[int, MessageType] = field(6)
    born_timestamp: Timestamp = field(7)
    born_host: str = field(8)
    store_timestamp: Timestamp = optional(9)
    store_host: str = field(10)
    delivery_timestamp: Timestamp = optional(11)
    receipt_handle: str = optional(12)
    queue_id: Int32 = field(13)
    queue_offset: Int64 = optional(14)
    invisible_duration: Duration = optional(15)
    delivery_attempt: Int32 = optional(16)
    message_group: str = optional(17)
    trace_context: str = optional(18)
    orphaned_transaction_recovery_duration: Duration = optional(19)
    dead_letter_queue: DeadLetterQueue = optional(20)
    lite_topic: str = optional(21)
    priority: Int32 = optional(22)


class Message(ProtoMessage):
    """A message, sent or delivered."""

    topic: Resource = field(1)
    user_properties: dict[str, str] = field(2)
    system_properties: SystemProperties = field(3)
    body: bytes = field(4)
