"""One slave of RocketMQ, as its reports show it: what it has, what was sent to it, and what it may get now. Pure: time is an argument.

The protocol has no name and no checksum, so a position is all that is known of a slave's log. These are refused, because nothing right could follow:
a slave whose log is longer than this one (this one was cut, or the slave copied another broker), and a slave whose next bytes are deleted here.
RocketMQ's master says nothing to either: it sends bytes of another log, or waits for ever.

A slave that reports 0 has an empty log. It gets everything from the first position that exists; RocketMQ's master begins at its last file.
"""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HaSettings:
    """Bounds of the slaves. The times are RocketMQ's."""

    slaves_max: int = 16
    """Connections. More are closed at once."""
    piece_bytes: int = 128 * 1024
    """Log bytes of one frame at most. RocketMQ's master sends 32 KiB; its slave takes frames of up to 4 MiB."""
    window_bytes: int = 8 * MIB
    """Sent and not yet reported."""
    bytes_per_second: int = 128 * MIB
    """To one slave. 0: as fast as it takes them."""
    look_seconds: float = 0.05
    """Pause between two looks at the end of the log. A look sends all that was written since the last one: one frame for many messages."""
    idle_seconds: float = 5.0
    """After this time without a frame, an empty one is sent."""
    silence_seconds: float = 20.0
    """A slave that reports nothing for this long is closed."""
    stall_seconds: float = 60.0
    """So is one that reports, and for this long does not get further though bytes are on their way to it."""

    def __post_init__(self) -> None:
        assert 0 < self.piece_bytes <= self.window_bytes
        assert self.idle_seconds < self.silence_seconds < self.stall_seconds


class SlaveRefused(Exception):
    """A slave gets nothing more. `word` names the reason for metrics; the text is for the operator of the slave."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word


class Slave:
    """One connection."""

    def __init__(self, settings: HaSettings, now_s: float) -> None:
        self._settings = settings
        self.has_begun = False
        """Whether it has reported where its log ends."""
        self.reported = 0
        """It has everything below."""
        self.sent = 0
        """Everything below was sent to it, or it had that before."""
        self._start = 0
        self._heard_s = self._progressed_s = self._sent_s = self._paid_s = now_s

    def report(self, position: int, begin: int, end: int, now_s: float) -> None:
        """Take a report. The log has the positions from `begin` to below `end`. Raises SlaveRefused."""
        self._heard_s = now_s
        if position < 0:
            raise SlaveRefused(
                "malformed", f"it reports the position {position}: this is no slave of RocketMQ"
            )
        if not self.has_begun:
            self._begin(position, begin, end)
            self._progressed_s = now_s
        elif position > self.sent:
            raise SlaveRefused(
                "malformed",
                f"it reports the position {position}, and only what is below {self.sent} was sent to it",
            )
        elif position > self.reported:
            self.reported, self._progressed_s = position, now_s

    def _begin(self, position: int, begin: int, end: int) -> None:
        if position > end:
            raise SlaveRefused(
                "ahead",
                f"its log ends at {position}, this one at {end}: it is a copy of another log, or this log was cut. "
                "Stop the slave, move its storePathRootDir away, and start it again: it copies everything",
            )
        if 0 < position < begin:
            raise SlaveRefused(
                "behind",
                f"its log ends at {position}, and this one begins at {begin}: the bytes between are deleted. "
                "Stop the slave, move its storePathRootDir away, and start it again: it copies what is left",
            )
        self.has_begun = True
        self.reported = position
        self.sent = self._start = position or begin

    @property
    def in_flight(self) -> int:
        """Bytes sent and not yet reported."""
        return self.sent - max(self.reported, self._start)

    def may_get_piece(self, now_s: float) -> bool:
        """Whether up to `piece_bytes` of the log may be sent now."""
        settings = self._settings
        is_paced = self._paid_s - now_s > settings.look_seconds
        return (
            self.has_begun and not is_paced and self.in_flight + settings.piece_bytes <= settings.window_bytes
        )

    def sent_piece(self, size: int, now_s: float) -> None:
        """Count a frame with `size` bytes of the log."""
        if size and not self.in_flight:
            self._progressed_s = now_s
        self.sent += size
        self._sent_s = now_s
        pace = self._settings.bytes_per_second
        if pace:
            self._paid_s = max(self._paid_s, now_s) + size / pace

    def is_idle(self, now_s: float) -> bool:
        """Whether an empty frame is due."""
        return self.has_begun and now_s - self._sent_s >= self._settings.idle_seconds

    def check(self, now_s: float) -> None:
        """Raise SlaveRefused for a slave that is silent, or does not get further."""
        settings = self._settings
        if now_s - self._heard_s >= settings.silence_seconds:
            raise SlaveRefused("silent", f"it has reported nothing for {settings.silence_seconds:.0f} s")
        if self.in_flight and now_s - self._progressed_s >= settings.stall_seconds:
            raise SlaveRefused(
                "stalled",
                f"its log has not grown for {settings.stall_seconds:.0f} s, and {self.in_flight} bytes were sent to it",
            )
