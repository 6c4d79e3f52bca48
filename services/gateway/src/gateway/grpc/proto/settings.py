"""Settings of clients, which the Telemetry stream exchanges."""

from enum import IntEnum
from typing import Annotated

from gateway.grpc.proto.common import Endpoints, Resource, SubscriptionEntry
from gateway.grpc.proto.declaring import Float, Int32, Int64, ProtoMessage, field, member, optional
from gateway.grpc.proto.duration import Duration
from gateway.grpc.proto.enums import ClientType, Language


class ExponentialBackoff(ProtoMessage):
    """Delays that grow by a factor."""

    initial: Duration = field(1)
    max: Duration = field(2)
    multiplier: Float = field(3)


class CustomizedBackoff(ProtoMessage):
    """A list of delays; the last one repeats."""

    next: list[Duration] = field(1)


class RetryPolicy(ProtoMessage):
    """How often and when a client retries."""

    max_attempts: Int32 = field(1)
    exponential_backoff: ExponentialBackoff = member(2, "strategy")
    customized_backoff: CustomizedBackoff = member(3, "strategy")


class UA(ProtoMessage):
    """The client's program and machine."""

    language: Annotated[int, Language] = field(1)
    version: str = field(2)
    platform: str = field(3)
    hostname: str = field(4)


class Publishing(ProtoMessage):
    """Settings of a producer."""

    topics: list[Resource] = field(1)
    max_body_size: Int32 = field(2)
    validate_message_type: bool = field(3)


class Subscription(ProtoMessage):
    """Settings of a consumer."""

    group: Resource = optional(1)
    subscriptions: list[SubscriptionEntry] = field(2)
    fifo: bool = optional(3)
    receive_batch_size: Int32 = optional(4)
    long_polling_timeout: Duration = optional(5)
    lite_subscription_quota: Int32 = optional(6)
    max_lite_topic_size: Int32 = optional(7)


class Metric(ProtoMessage):
    """Whether and where a client exports metrics."""

    on: bool = field(1)
    endpoints: Endpoints = optional(2)


class Settings(ProtoMessage):
    """A client's settings, or the server's answer to them."""

    client_type: Annotated[int, ClientType] = optional(1)
    access_point: Endpoints = optional(2)
    backoff_policy: RetryPolicy = optional(3)
    request_timeout: Duration = optional(4)
    publishing: Publishing = member(5, "pub_sub")
    subscription: Subscription = member(6, "pub_sub")
    user_agent: UA = field(7)
    metric: Metric = field(8)
    client_properties: dict[str, str] = field(9)


class OffsetOption(ProtoMessage):
    """Where a new lite topic starts."""

    class Policy(IntEnum):
        """Starts that do not depend on a number."""

        LAST = 0
        MIN = 1
        MAX = 2

    policy: Annotated[int, Policy] = member(1, "offset_type")
    offset: Int64 = member(2, "offset_type")
    tail_n: Int64 = member(3, "offset_type")
    timestamp: Int64 = member(4, "offset_type")
