"""Maxima of a connection, each named with its unit."""

from dataclasses import dataclass

from gantry_wire.limits import FRAME_BYTES_MAX

MIB = 1024 * 1024
FREE_BYTES = 4 * 1024
"""What a connection may hold of a half frame uncounted."""
COUNTED_BYTES = 64 * 1024
"""So many bytes of answers are counted at once: at that many more of a turn, and when they have waited for longer than one."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What one side of a connection holds at most. Defaults fit a broker; tests make them small."""

    output_bytes_max: int = 64 * MIB
    """Bytes waiting to be sent to one peer; beyond, a server closes the connection and a client refuses calls."""
    output_pause_bytes: int = 4 * MIB
    """Bytes in the socket's buffer from which on nothing more is read from that peer, until it has drained to a quarter."""
    calls_max: int = 65_536
    """Requests on one connection that wait for an answer."""
    connections_max: int = 16_384
    """Connections one server accepts; beyond, new ones are closed at once."""
    idle_seconds: float = 120.0
    """A connection without traffic either way is closed by the server after this time (RocketMQ's value)."""
    frame_seconds: float = 60.0
    """A frame that has begun must be whole after this time, or the server closes the connection."""
    client_idle_seconds: float = 100.0
    """A client closes first, so that no request crosses the server's closing."""

    def __post_init__(self) -> None:
        assert self.output_pause_bytes <= self.output_bytes_max
        assert self.output_bytes_max >= COUNTED_BYTES


assert LinkLimits().output_bytes_max > 2 * FRAME_BYTES_MAX
assert LinkLimits().client_idle_seconds < LinkLimits().idle_seconds
JOIN_BYTES_MAX = 128 * 1024
"""Up to this size the parts of one turn are copied together; above, the copy costs more than the extra buffers."""
