"""Requests and responses of producers."""

from typing import Annotated

from gateway.grpc.proto.common import Resource, Status
from gateway.grpc.proto.declaring import Int64, ProtoMessage, field
from gateway.grpc.proto.enums import TransactionResolution, TransactionSource
from gateway.grpc.proto.message import Message


class SendMessageRequest(ProtoMessage):
    """The request of SendMessage."""

    messages: list[Message] = field(1)


class SendResultEntry(ProtoMessage):
    """The result of one sent message."""

    status: Status = field(1)
    message_id: str = field(2)
    transaction_id: str = field(3)
    offset: Int64 = field(4)
    recall_handle: str = field(5)


class SendMessageResponse(ProtoMessage):
    """The response of SendMessage."""

    status: Status = field(1)
    entries: list[SendResultEntry] = field(2)


class EndTransactionRequest(ProtoMessage):
    """The request of EndTransaction."""

    topic: Resource = field(1)
    message_id: str = field(2)
    transaction_id: str = field(3)
    resolution: Annotated[int, TransactionResolution] = field(4)
    source: Annotated[int, TransactionSource] = field(5)
    trace_context: str = field(6)


class EndTransactionResponse(ProtoMessage):
    """The response of EndTransaction."""

    status: Status = field(1)


class RecallMessageRequest(ProtoMessage):
    """The request of RecallMessage."""

    topic: Resource = field(1)
    recall_handle: str = field(2)


class RecallMessageResponse(ProtoMessage):
    """The response of RecallMessage."""

    status: Status = field(1)
    message_id: str = field(2)
