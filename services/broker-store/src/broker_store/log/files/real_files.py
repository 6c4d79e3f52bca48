# ruff: noqa: D102 - the Protocols in `files` say what the operations promise
"""Files on the disk of this machine."""

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from broker_store.log.files.files import Data
from broker_store.log.files.spare_descriptors import SpareDescriptors

BUFFERS_PER_WRITE_MAX = 1024
"""IOV_MAX of Linux: more buffers need another call."""
ZERO_BLOCK_BYTES = 1024 * 1024
FOLIO_BYTES_MAX = mmap.PAGESIZE * mmap.PAGESIZE // 8
"""Most that Linux keeps in the page cache as one piece: as much as one page of page table entries maps, 2 MiB with pages of 4 KiB."""
_libc = ctypes.CDLL(None, use_errno=True)
_ZEROS = bytes(ZERO_BLOCK_BYTES)
_NOWAIT_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


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
        # the kernel keeps a page or larger folio that begins before the range
        before = start % FOLIO_BYTES_MAX
        os.posix_fadvise(self._fd, start - before, size + before, os.POSIX_FADV_DONTNEED)

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
