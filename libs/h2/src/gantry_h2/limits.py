"""What a connection accepts."""

from dataclasses import dataclass

from gantry_h2.frames import FRAME_BYTES_MIN, Setting


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes. The client learns them from the first SETTINGS; what breaks them ends the stream or the connection."""

    streams_max: int = 1000
    """Calls at one time. A client waits with further ones."""
    stream_window: int = 1 << 20
    """What a call may send before it was used."""
    connection_window: int = 8 << 20
    """The same for all calls together."""
    header_list_bytes_max: int = 64 << 10
    header_table_bytes: int = 4096
    frame_bytes_max: int = FRAME_BYTES_MIN

    def settings(self) -> dict[Setting, int]:
        """Return what the first SETTINGS says."""
        return {
            Setting.HEADER_TABLE_SIZE: self.header_table_bytes,
            Setting.MAX_CONCURRENT_STREAMS: self.streams_max,
            Setting.INITIAL_WINDOW_SIZE: self.stream_window,
            Setting.MAX_FRAME_SIZE: self.frame_bytes_max,
            Setting.MAX_HEADER_LIST_SIZE: self.header_list_bytes_max,
        }
