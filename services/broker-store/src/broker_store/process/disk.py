"""The disk of a store: its files, and how one process takes a directory for itself."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from broker_store.log.errors import LogError, StoreInUse
from broker_store.log.files.files import Files
from broker_store.log.files.real_files import RealFiles
from broker_store.log.lock import StoreLock
from gantry_chassis.machine.private_files import private_directory
from gantry_chassis.start_refusal import StartRefused


class Lock(Protocol):
    """Keeps other processes out of a store directory."""

    def release(self) -> None:
        """Let other processes in."""
        ...


class Disk(NamedTuple):
    """What a store process stores on."""

    files: Files
    take: Callable[[Path], Lock]
    """Makes a store directory private to this process. Raises StartRefused."""


def real_disk() -> Disk:
    """Return the disk of this machine."""
    return Disk(RealFiles(), _take)


def _take(directory: Path) -> StoreLock:
    try:
        private_directory(directory)
        return StoreLock(str(directory))
    except StoreInUse as error:
        raise StartRefused(str(error)) from error
    except OSError as error:
        raise StartRefused(f"store directory {directory} cannot be used: {error.strerror}") from error


@contextmanager
def refusing_start(directory: Path) -> Generator[None]:
    """Refuse a start whose directory cannot be opened: LogError and OSError become StartRefused."""
    try:
        yield
    except LogError as error:
        raise StartRefused(str(error)) from error
    except OSError as error:
        raise StartRefused(
            f"store directory {directory} cannot be opened: {error.strerror} at {error.filename or 'its disk'}; check the disk"
        ) from error
