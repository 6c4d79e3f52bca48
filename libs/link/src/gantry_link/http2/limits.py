"""Maxima of an HTTP/2 port, each named with its unit."""

from dataclasses import dataclass, field

from gantry_h2.limits import Limits


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Limits of a port and its connections. Tests use small values."""

    connection: Limits = field(default_factory=lambda: Limits(header_list_bytes_max=16 * 1024))
    """What the client may send. gRPC's own servers accept 8 to 16 KiB of headers."""
    output_pause_bytes: int = 1024 * 1024
    """Bytes in the socket's buffer at which reading from the client stops, and streams wait, until the buffer drains to a quarter."""
    idle_seconds: float = 120.0
    """A connection without a call is closed after this time (RocketMQ's value). PINGs are no calls."""
    read_seconds: float = 60.0
    """Time for a message to arrive whole. Beyond, its call ends."""
    unsent_seconds: float = 60.0
    """Longest time in which a client may take nothing of an answer. Beyond, its connection is cut."""
    ping_seconds: float = 60.0
    """A client with open calls that sends nothing for this time gets a PING with each sweep."""
    silent_seconds: float = 100.0
    """A client with open calls is gone if it sends nothing for this time. Its connection is cut."""
    closing_seconds: float = 10.0
    """Longest time between the goodbye and the end of a connection."""
    sweep_seconds: float = 10.0
    """Time between two checks of these limits."""
