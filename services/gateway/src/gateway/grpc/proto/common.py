"""Names, addresses, queues and results: what several calls share."""

from typing import Annotated

from gateway.grpc.proto.declaring import Int32, ProtoMessage, field
from gateway.grpc.proto.enums import AddressScheme, Code, FilterType, MessageType, Permission


class Resource(ProtoMessage):
    """The name of a topic or consumer group."""

    resource_namespace: str = field(1)
    name: str = field(2)


class Address(ProtoMessage):
    """A host and port."""

    host: str = field(1)
    port: Int32 = field(2)


class Endpoints(ProtoMessage):
    """Addresses of one scheme."""

    scheme: Annotated[int, AddressScheme] = field(1)
    addresses: list[Address] = field(2)


class Broker(ProtoMessage):
    """A broker as clients reach it."""

    name: str = field(1)
    id: Int32 = field(2)
    endpoints: Endpoints = field(3)


class MessageQueue(ProtoMessage):
    """One queue of a topic."""

    topic: Resource = field(1)
    id: Int32 = field(2)
    permission: Annotated[int, Permission] = field(3)
    broker: Broker = field(4)
    accept_message_types: list[Annotated[int, MessageType]] = field(5)


class Assignment(ProtoMessage):
    """A queue that a consumer receives from."""

    message_queue: MessageQueue = field(1)


class FilterExpression(ProtoMessage):
    """Selects messages by tag or SQL92."""

    type: Annotated[int, FilterType] = field(1)
    expression: str = field(2)


class SubscriptionEntry(ProtoMessage):
    """A topic and its filter."""

    topic: Resource = field(1)
    expression: FilterExpression = field(2)


class Status(ProtoMessage):
    """The result of a call or of one of its entries."""

    code: Annotated[int, Code] = field(1)
    message: str = field(2)
