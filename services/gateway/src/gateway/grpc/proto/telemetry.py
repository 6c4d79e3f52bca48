"""Commands of the Telemetry stream."""

from gateway.grpc.proto.common import Status
from gateway.grpc.proto.declaring import ProtoMessage, field, member, optional
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.settings import Settings


class PrintThreadStackTraceCommand(ProtoMessage):
    """Asks a client for its stack traces."""

    nonce: str = field(1)


class ReconnectEndpointsCommand(ProtoMessage):
    """Asks a client to connect again."""

    nonce: str = field(1)


class ThreadStackTrace(ProtoMessage):
    """A client's stack traces."""

    nonce: str = field(1)
    thread_stack_trace: str = optional(2)


class VerifyMessageCommand(ProtoMessage):
    """Asks a consumer to consume a message."""

    nonce: str = field(1)
    message: Message = field(2)


class VerifyMessageResult(ProtoMessage):
    """Whether a client consumed a message sent to it for a check."""

    nonce: str = field(1)


class RecoverOrphanedTransactionCommand(ProtoMessage):
    """Asks a producer to decide on a transaction."""

    message: Message = field(1)
    transaction_id: str = field(2)


class NotifyUnsubscribeLiteCommand(ProtoMessage):
    """Removes a lite topic from a consumer."""

    lite_topic: str = field(1)


class TelemetryCommand(ProtoMessage):
    """One message of a Telemetry stream, from either side."""

    status: Status = optional(1)
    settings: Settings = member(2, "command")
    thread_stack_trace: ThreadStackTrace = member(3, "command")
    verify_message_result: VerifyMessageResult = member(4, "command")
    recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand = member(5, "command")
    print_thread_stack_trace_command: PrintThreadStackTraceCommand = member(6, "command")
    verify_message_command: VerifyMessageCommand = member(7, "command")
    reconnect_endpoints_command: ReconnectEndpointsCommand = member(8, "command")
    notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand = member(9, "command")
