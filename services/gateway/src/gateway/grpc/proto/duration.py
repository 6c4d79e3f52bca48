"""google.protobuf.Duration, and its conversion to milliseconds."""

from gateway.grpc.proto.declaring import Int32, Int64, ProtoMessage, field

_NANOS_OF_MS = 1_000_000


class Duration(ProtoMessage):
    """A signed time; `nanos` has the sign of `seconds`."""

    seconds: Int64 = field(1)
    nanos: Int32 = field(2)


def duration(ms: int) -> Duration:
    """Return milliseconds, which may not be negative, as a Duration."""
    seconds, rest_ms = divmod(ms, 1000)
    return Duration(seconds=seconds, nanos=rest_ms * _NANOS_OF_MS)


def duration_ms(value: Duration) -> int:
    """Return a Duration in milliseconds, cut towards the past."""
    return value.seconds * 1000 + value.nanos // _NANOS_OF_MS
