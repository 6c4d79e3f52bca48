"""Errors of the log, each with what to do next. Separates damage on disk from misuse of a position."""


class LogError(Exception):
    """Base of all deliberate errors of the log."""


class DiskFull(LogError):
    """No room for the batch, which was taken back. Refuse the sends (507). Heals when space returns."""


class NoDescriptorLeft(DiskFull):
    """Too many files are open to make the next segment or its name durable.

    Refuse or hold the sends; the next try may succeed.
    """


class LogStopped(LogError):
    """A write failed or a flush was not confirmed. Nothing more is written until a restart has read the tail again."""


class RecordTooLarge(LogError):
    """One reservation does not fit into an empty segment. Raise the segment size or send less at once."""


class PositionRemoved(LogError):
    """The position is below the first segment: retention has deleted it. Continue at the minimum."""


class PositionNotVisible(LogError):
    """The position is at or above the visible end: nothing may be read there yet."""


class WritesLost(OSError):
    """A sync of a derived file failed, whatever its errno: some of its writes are lost.

    A restart rebuilds it from the log.
    """


class DamagedRecord(LogError):
    """The bytes at `position` fail their check. Never serve them: skip the record and report it."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"record at position {position}: {fault}")
        self.position = position


class LogUnreadable(LogError):
    """The directory cannot be opened as a log. The message says which file and what to do with it."""


class StoreInUse(LogError):
    """Another process holds this store directory. Stop it, or choose another directory."""
