"""google.protobuf.Timestamp, and its conversion to milliseconds since 1970."""

from gateway.grpc.proto.declaring import Int32, Int64, ProtoMessage, field

_NANOS_OF_MS = 1_000_000


class Timestamp(ProtoMessage):
    """A time since 1970 in UTC; `nanos` counts forward, before 1970 too."""

    seconds: Int64 = field(1)
    nanos: Int32 = field(2)


def timestamp(ms: int) -> Timestamp:
    """Return milliseconds since 1970 as a Timestamp."""
    seconds, rest_ms = divmod(ms, 1000)
    return Timestamp(seconds=seconds, nanos=rest_ms * _NANOS_OF_MS)


def timestamp_ms(value: Timestamp) -> int:
    """Return a Timestamp in milliseconds since 1970, cut towards the past."""
    return value.seconds * 1000 + value.nanos // _NANOS_OF_MS
