"""Maxima of a connection, each named with its unit."""

from dataclasses import dataclass

from gantry_wire.limits import FRAME_BYTES_MAX

MIB = 1024 * 1024
FREE_BYTES = 4 * 1024
"""Bytes of a half frame that a connection may hold without counting them in the budget."""
COUNTED_BYTES = 64 * 1024
"""Step in which output is counted in the budget: each time a turn adds this many bytes, and if they wait for longer than a turn."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Limits of one side of a connection. The defaults fit a broker; tests use small values."""

    output_bytes_max: int = 64 * MIB
    """Bytes queued for one peer. Beyond, a server closes the connection and a client refuses calls."""
    output_pause_bytes: int = 4 * MIB
    """Bytes in the socket's buffer at which reading from that peer stops, until the buffer drains to a quarter."""
    calls_max: int = 65_536
    """Open calls per connection."""
    connections_max: int = 16_384
    """Connections per server. Beyond, new ones are closed at once."""
    idle_seconds: float = 120.0
    """The server closes a connection without traffic in either direction after this time (RocketMQ's value)."""
    frame_seconds: float = 60.0
    """Time for a frame to arrive completely after its first bytes. Beyond, the server closes the connection."""
    client_idle_seconds: float = 100.0
    """A client closes first, so that no request crosses the server's close."""

    def __post_init__(self) -> None:
        assert self.output_pause_bytes <= self.output_bytes_max
        assert self.output_bytes_max >= COUNTED_BYTES


assert LinkLimits().output_bytes_max > 2 * FRAME_BYTES_MAX
assert LinkLimits().client_idle_seconds < LinkLimits().idle_seconds
JOIN_BYTES_MAX = 128 * 1024
"""Up to this size the parts of one turn are joined. Above, the copy costs more than the extra buffers."""
