"""Maxima of a gRPC server, each named with its unit."""

from dataclasses import dataclass, field

from gantry_link.http2.limits import Http2Limits

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Limits of messages, and of the HTTP/2 below them. Tests use small values."""

    message_bytes_max: int = 130 * MIB
    """A message as it is sent (the value of RocketMQ's proxy)."""
    unpacked_bytes_max: int = 32 * MIB
    """A message that was compressed. It is unpacked at once, so a small one must not take seconds."""
    http2: Http2Limits = field(default_factory=Http2Limits)
