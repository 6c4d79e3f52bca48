# ruff: noqa: D102 - the Protocols say what the operations promise
"""The few file operations the store needs, as Protocols, and their implementation on the real disk.

Knows no format. `simulated_files` implements the same interface over a disk that can crash.
"""

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from broker_store.log.spare_descriptors import SpareDescriptors

Data: TypeAlias = bytes | bytearray | memoryview

BUFFERS_PER_WRITE_MAX = 1024
"""IOV_MAX of Linux: more buffers need another call."""
SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that mean no space and nothing worse."""
ZERO_BLOCK_BYTES = 1024 * 1024
_libc = ctypes.CDLL(None, use_errno=True)
_ZEROS = bytes(ZERO_BLOCK_BYTES)
_NOWAIT_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class File(Protocol):
    """One open file, read and written at positions. Every failure is an OSError."""

    path: str

    def pwritev(self, buffers: Sequence[Data], position: int) -> None:
        """Write all buffers in order, or raise with an unknown part of them written."""
        ...

    def pwrite(self, data: Data, position: int) -> None:
        """Write all of data, or raise with an unknown part of it written."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Return up to size bytes. Fewer only at the end of the file."""
        ...

    def pread_nowait(self, size: int, position: int) -> bytes | None:
        """Return exactly size bytes if all are in the page cache, else None: then read in a thread."""
        ...

    def sync(self) -> None:
        """Return once everything written so far is durable. After a failure its state is unknown for ever."""
        ...

    def zero(self, start: int, size: int) -> None:
        """Write zeros over a range, so that its blocks are allocated."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend the file; the extension reads as zeros and holds no blocks."""
        ...

    def next_data(self, position: int) -> int | None:
        """Return the first position at or after this one that may hold other bytes than zeros, None if there is none."""
        ...

    def drop_cached(self, start: int, size: int) -> None:
        """Request that the next read of the range comes from the device. Only synced bytes can be dropped."""
        ...

    def size(self) -> int:
        """Size of the file in bytes."""
        ...

    def is_at(self, path: str) -> bool:
        """Whether this path still names this file: it was not removed, moved or replaced."""
        ...

    def close(self) -> None:
        """Release the descriptor without a sync. Also done when the last reference is dropped."""
        ...


class Files(Protocol):
    """A directory tree. `sync_dir` of a directory makes its names durable."""

    def open(self, path: str, create_bytes: int | None = None) -> File:
        """Open for reading and writing. With create_bytes, create it or extend it to that size if needed."""
        ...

    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in the directory, none if it is missing."""
        ...

    def make_dirs(self, path: str) -> None:
        """Make the directory and its parents. Each entry is durable after `sync_dir` of its parent."""
        ...

    def rename(self, path: str, new_path: str) -> None: ...
    def remove(self, path: str) -> None:
        """Remove a file. A missing one is no error."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory with all its content. A missing one is no error."""
        ...

    def link(self, path: str, new_path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def sync_all(self, path: str) -> None:
        """Make everything written to the file system of this path durable: cheaper than many files one by one."""
        ...

    def read_bytes(self, path: str) -> bytes | None:
        """Return the whole content, None if the file is missing."""
        ...

    def replace_atomically(self, path: str, content: bytes) -> None:
        """Replace the content. After a crash the file holds the old or the new content in full. Durable on return."""
        ...

    def free_bytes(self, path: str) -> int: ...
    def total_bytes(self, path: str) -> int:
        """Return the used bytes, and those this process may still use, without blocks reserved for others (as df)."""
        ...


class RealFile:
    """A descriptor of the operating system. Threads may share an object: it has no file position."""

    __slots__ = ("_fd", "_identity", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._identity: tuple[int, int] | None = None

    def pwritev(self, buffers: Sequence[Data], position: int) -> None:
        for first in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
            part = (
                buffers[first : first + BUFFERS_PER_WRITE_MAX]
                if len(buffers) > BUFFERS_PER_WRITE_MAX
                else buffers
            )
            size = sum(map(len, part))
            written = os.pwritev(self._fd, part, position)
            if written < size:
                self.pwrite(memoryview(b"".join(part))[written:], position + written)
            position += size

    def pwrite(self, data: Data, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):
            more = os.pwrite(self._fd, memoryview(data)[written:], position + written)
            if more == 0:
                raise OSError(errno.EIO, "the disk takes no more bytes", self.path)
            written += more

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        while 0 < len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pread_nowait(self, size: int, position: int) -> bytes | None:
        buffer = bytearray(size)
        try:
            count = os.preadv(self._fd, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _NOWAIT_UNSUPPORTED:
                return self.pread(size, position)
            raise
        return bytes(buffer) if count == size else None

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def zero(self, start: int, size: int) -> None:
        while size > 0:
            count = min(size, ZERO_BLOCK_BYTES)
            self.pwrite(memoryview(_ZEROS)[:count], start)
            start += count
            size -= count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def next_data(self, position: int) -> int | None:
        try:
            return os.lseek(self._fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def drop_cached(self, start: int, size: int) -> None:
        os.posix_fadvise(self._fd, start, size, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def is_at(self, path: str) -> bool:
        if self._identity is None:
            mine = os.fstat(self._fd)
            self._identity = mine.st_ino, mine.st_dev
        try:
            named = os.stat(path)  # noqa: PTH116 - often called, and a Path takes twice the time
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (named.st_ino, named.st_dev) == self._identity

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        """Close with the last reference: a thread may still read a file that its owner has released."""
        self.close()


class RealFiles:
    """The disk of this machine. Reserves a few descriptors for when the process has no other left."""

    def __init__(self) -> None:
        self._spares = SpareDescriptors()

    def open(self, path: str, create_bytes: int | None = None) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (0 if create_bytes is None else os.O_CREAT)
        file = RealFile(path, self._spares.open(lambda: os.open(path, flags, 0o644)))
        if create_bytes is not None and file.size() < create_bytes:
            file.truncate(create_bytes)
        return file

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(self._spares.open(lambda: os.listdir(path)))  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return []

    def make_dirs(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        Path(path).replace(new_path)

    def remove(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def remove_dir(self, path: str) -> None:
        directory = Path(path)
        if not directory.exists():
            return
        for entry in [directory / name for name in self.listdir(path)]:
            if entry.is_dir() and not entry.is_symlink():
                self.remove_dir(str(entry))
            else:
                entry.unlink()
        try:
            directory.rmdir()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            self.remove_dir(path)  # another thread has created something in it

    def link(self, path: str, new_path: str) -> None:
        os.link(path, new_path)

    def sync_all(self, path: str) -> None:
        fd = self._open_dir(path)
        try:
            if _libc.syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(fd)

    def sync_dir(self, path: str) -> None:
        fd = self._open_dir(path)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _open_dir(self, path: str) -> int:
        return self._spares.open(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def read_bytes(self, path: str) -> bytes | None:
        try:
            return self._spares.open(Path(path).read_bytes)
        except FileNotFoundError:
            return None

    def replace_atomically(self, path: str, content: bytes) -> None:
        temporary = self.open(f"{path}.tmp", create_bytes=0)
        try:
            temporary.truncate(0)
            temporary.pwrite(content, 0)
            temporary.sync()
        finally:
            temporary.close()
        self.rename(f"{path}.tmp", path)
        self.sync_dir(str(Path(path).parent))

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return (status.f_blocks - status.f_bfree + status.f_bavail) * status.f_frsize


def make_durable_dirs(files: Files, path: str) -> None:
    """Make a directory whose entry, and those of its new parents, survive a power cut."""
    missing = [parent for parent in (Path(path), *Path(path).parents) if not files.exists(str(parent))]
    files.make_dirs(path)
    for directory in missing:
        files.sync_dir(str(directory.parent))
