"""Keeps a small content on disk in two files written in turn, so that saving it costs one disk flush.

`<path>.0` and `<path>.1`: magic 4 | length 4 | CRC 4 | number 8 | content. The intact one with the higher
number counts. A crash during a write leaves the other one with the previous content.
"""

from pathlib import PurePath
from struct import Struct
from zlib import crc32

from broker_store.log.files.files import File, Files

_HEAD = Struct(">4sIIq")
_MAGIC = b"GLK1"
"""Format version 1. A file with another magic is ignored."""


class LockFile:
    """The two files. For one thread at a time; every call blocks."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files
        self._open: dict[int, File] = {}
        self._number = 0
        self._found: bytes | None = None
        """What `load` returned, until it is certainly durable."""

    def load(self) -> bytes | None:
        """Return the content saved last, None if there is none."""
        newest: bytes | None = None
        for turn in (0, 1):
            number, content = self._read(turn)
            if content is not None and number > self._number:
                self._number, newest = number, content
        self._found = newest
        return newest

    def save(self, content: bytes) -> None:
        """Replace the content. Durable on return. Raises OSError and then keeps the previous content."""
        if self._found is not None:
            # after a kill the page cache alone may hold it, and the write below goes over the content before it
            self._write(self._number, self._found)
            self._found = None
        number = self._number + 1
        turn = number % 2
        try:
            self._write(number, content)
        except OSError:
            # The descriptor may hide lost pages: the next write to this file creates it again.
            if turn in self._open:
                self._open.pop(turn).close()
                self._files.remove(f"{self.path}.{turn}")
            raise
        self._number = number

    def forget(self) -> None:
        """Remove what was saved. Raises OSError. For a store that takes over from another one, which has granted other locks meanwhile."""
        for turn in (0, 1):
            self._files.remove(f"{self.path}.{turn}")

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _write(self, number: int, content: bytes) -> None:
        file = self._file(number % 2)
        file.pwrite(_HEAD.pack(_MAGIC, len(content), _crc(number, content), number) + content, 0)
        file.sync()

    def _file(self, turn: int) -> File:
        if turn not in self._open:
            directory = str(PurePath(self.path).parent)
            self._files.make_dirs(directory)
            self._open[turn] = self._files.open(f"{self.path}.{turn}", create_bytes=0)
            self._files.sync_dir(directory)
        return self._open[turn]

    def _read(self, turn: int) -> tuple[int, bytes | None]:
        data = self._files.read_bytes(f"{self.path}.{turn}") or b""
        if len(data) < _HEAD.size:
            return 0, None
        magic, size, crc, number = _HEAD.unpack_from(data)
        content = data[_HEAD.size : _HEAD.size + size]
        is_whole = magic == _MAGIC and len(content) == size and crc == _crc(number, content)
        return number, content if is_whole else None


def _crc(number: int, content: bytes) -> int:
    return crc32(content, crc32(number.to_bytes(8, "big", signed=True)))
