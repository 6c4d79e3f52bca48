"""Keeps other processes out of a store directory, Gantry's and RocketMQ's, as long as this one lives."""

import fcntl
import os
from pathlib import Path

from broker_store.log.errors import StoreInUse

_CONTENT = b"lock"


class StoreLock:
    """Holds `<store>/lock`: flock, and the POSIX lock of its first byte that RocketMQ takes.

    Both end with the process, however it dies. Only the real disk has locks, so this does not use Files.
    """

    def __init__(self, store_directory: str) -> None:
        """Take the lock, or raise StoreInUse at once."""
        Path(store_directory).mkdir(parents=True, exist_ok=True)
        path = f"{store_directory}/lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            os.close(self._fd)
            raise StoreInUse(
                f"{store_directory} is in use by another process: stop it or choose another directory"
            ) from error
        os.pwrite(self._fd, _CONTENT, 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)
