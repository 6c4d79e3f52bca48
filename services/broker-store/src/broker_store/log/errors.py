"""What the log raises, each with what to do next. Damage of the disk is told apart from misuse of the position."""


class LogError(Exception):
    """Base of everything the log raises on purpose."""


class DiskFull(LogError):
    """No room for the batch: all of it was taken back. Refuse the sends (507); it heals when space returns."""


class NoDescriptorLeft(DiskFull):
    """Too many files are open to make the next segment or its name durable: refuse or hold the sends; the next try may do better."""


class LogStopped(LogError):
    """A write failed or a flush was not confirmed: nothing more is written until a restart has re-read the tail."""


class RecordTooLarge(LogError):
    """One reservation does not fit into an empty segment: raise the segment size or send less at once."""


class PositionRemoved(LogError):
    """The position lies below the first segment: retention has deleted it. Continue at the minimum."""


class PositionNotVisible(LogError):
    """The position lies at or above the visible end: nothing may be read there yet."""


class WritesLost(OSError):
    """A sync of a derived file failed, whatever its errno: some of what was written is gone. A restart makes it again from the log."""


class DamagedRecord(LogError):
    """The bytes at `position` fail their check. Never serve them: skip past the record and report it."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"record at position {position}: {fault}")
        self.position = position


class LogUnreadable(LogError):
    """The directory cannot be opened as a log: the words say which file and what to do with it."""


class StoreInUse(LogError):
    """Another process holds this store directory: stop it, or choose another directory."""
