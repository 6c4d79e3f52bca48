"""`gantry/deleted`: how far retention has deleted the log. So a start tells first segments that were deleted from those that are lost.

    magic "GDN1" | position u64, below which retention deletes | CRC-32 of both u32; big-endian

Written durably before a segment's file is removed, and replaced as a whole. A missing or damaged note says nothing: then the log begins where its first
file does. To raise the version: use another magic, and read both.
"""

from struct import Struct
from zlib import crc32

from broker_store.log.files.files import SPACE_ERRORS, Files

NAME = "gantry/deleted"
MAGIC = b"GDN1"
POSITION_MAX = (1 << 62) - 1
_POSITION = Struct(">4sQ")
_CRC = Struct(">I")


class DeletedNote:
    """The file of one store directory. For one thread at a time."""

    def __init__(self, files: Files, store_directory: str) -> None:
        """Read the file. Raises OSError."""
        self._files = files
        self._path = f"{store_directory}/{NAME}"
        self.position: int | None = decode_deleted(files.read_bytes(self._path) or b"")
        """Retention has deleted nothing at or above this position. None: unknown."""

    def raise_to(self, position: int) -> None:
        """Note that retention deletes below this position. Durable on return. Raises OSError; then nothing may be deleted.

        Where the disk has no room for it, the note is removed: unknown is right, too, and the deletion makes room.
        """
        if self.position is not None and position <= self.position:
            return
        try:
            self._files.replace_atomically(self._path, encode_deleted(position))
        except OSError as error:
            if error.errno not in SPACE_ERRORS:
                raise
            self.forget()
        else:
            self.position = position

    def forget(self) -> None:
        """Let the note say nothing, durably: another program wrote here. Raises OSError."""
        self._files.remove(self._path)
        self._files.sync_dir(self._path.rpartition("/")[0])
        self.position = None


def encode_deleted(position: int) -> bytes:
    """Return the content of the file."""
    content = _POSITION.pack(MAGIC, position)
    return content + _CRC.pack(crc32(content))


def decode_deleted(content: bytes) -> int | None:
    """Return the position, None where the content is none that `encode_deleted` made."""
    if len(content) != _POSITION.size + _CRC.size:
        return None
    magic, position = _POSITION.unpack_from(content)
    is_whole = _CRC.unpack_from(content, _POSITION.size) == (crc32(content[: _POSITION.size]),)
    return position if is_whole and magic == MAGIC and position <= POSITION_MAX else None
