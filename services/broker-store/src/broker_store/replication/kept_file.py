"""What a replica keeps beside its log, `gantry/replica`: its fence, the newest record of the register, the epoch table. One file, replaced as a whole.

Numbers are big-endian; the record is the JSON of the register, empty for none; the table has its form on disk:

    magic "GKPT" | format u16 | fence u64 | begin u64 | void u8, 0 or 1 | bytes of the record u32 | record | table | CRC-32 of all before it u32

Format 2. Format 1 has neither begin nor void: both are 0. For a new one: read all, write the new one, keep the bytes of each in the tests.

A missing file is that of a directory that never belonged to a group. A damaged one is never taken for that: a replica that forgot its promises
would acknowledge to two leaders.
"""

from struct import Struct
from zlib import crc32

from broker_store.log.files.files import Files, make_durable_dirs
from broker_store.replication.epochs import ENTRIES_MAX, NUMBER_MAX, EpochTable, MalformedEpochTable
from broker_store.replication.register.record import RECORD_BYTES_MAX, MalformedRecord, decode, encode
from broker_store.replication.steps import Kept

NAME = "gantry/replica"
MAGIC = b"GKPT"
FORMAT = 2

_START = Struct(">4sH")
_HEADS = {1: Struct(">QI"), 2: Struct(">QQBI")}
_CRC = Struct(">I")
_TABLE_BYTES_MAX = EpochTable.disk_bytes(ENTRIES_MAX)
_HEAD_BYTES_MIN = _START.size + _HEADS[1].size
FILE_BYTES_MAX = _START.size + _HEADS[FORMAT].size + RECORD_BYTES_MAX + _TABLE_BYTES_MAX + _CRC.size

_RESTORE = (
    "The file holds what this replica promised. Do not remove it: without it the replica could lose acknowledged messages. Give the"
    " store an empty directory and a new name, and it copies the log from its leader. Only if no other member of the in-sync set has"
    " the log, copy both, this file and the log, from one backup"
)


class KeptUnreadable(Exception):
    """The file is damaged, or a newer Gantry wrote it. The store must not start; the message says what to do."""


class KeptFile:
    """The file of one store directory. For one thread at a time."""

    def __init__(self, files: Files, store_directory: str) -> None:
        """Read the file. Raises KeptUnreadable; OSError."""
        self._files = files
        self.path: str = f"{store_directory}/{NAME}"
        make_durable_dirs(files, self.path.rpartition("/")[0])
        content = files.read_bytes(self.path)
        self.kept: Kept = Kept() if content is None else self._decoded(content)
        """What the file holds."""

    def write(self, kept: Kept) -> None:
        """Replace the content. Durable on return. Raises OSError, and then the file holds the old content or the new one.

        A fence never goes down, and neither does the version of the known record.
        """
        assert kept.fence >= self.kept.fence
        assert _version(kept) >= _version(self.kept)
        self._files.replace_atomically(self.path, encode_kept(kept))
        self.kept = kept

    def _decoded(self, content: bytes) -> Kept:
        try:
            return decode_kept(content)
        except KeptUnreadable as error:
            raise KeptUnreadable(f"{self.path} {error}") from error


def encode_kept(kept: Kept) -> bytes:
    """Return the content of the file."""
    record = b"" if kept.newest is None else encode(kept.newest)
    head = _HEADS[FORMAT].pack(kept.fence, kept.begin, kept.is_void, len(record))
    content = _START.pack(MAGIC, FORMAT) + head + record + kept.table.to_disk()
    return content + _CRC.pack(crc32(content))


def decode_kept(content: bytes) -> Kept:
    """Return what the file holds. Raises KeptUnreadable."""
    if not _HEAD_BYTES_MIN + _CRC.size < len(content) <= FILE_BYTES_MAX:
        raise _damaged(f"it has {len(content)} bytes")
    magic, version = _START.unpack_from(content)
    if magic != MAGIC:
        raise _damaged(f"it begins with {magic!r}")
    checked, crc = content[: -_CRC.size], content[-_CRC.size :]
    if _CRC.unpack(crc) != (crc32(checked),):
        raise _damaged("its CRC differs")
    if version not in _HEADS:
        raise KeptUnreadable(
            f"has format {version}, and this Gantry reads formats up to {FORMAT}: start the version that wrote it"
        )
    fence, begin, void, record_start, record_bytes = _read_head(checked, version)
    record_end = record_start + record_bytes
    if max(fence, begin) > NUMBER_MAX or void > 1 or record_end > len(checked):
        raise _damaged(
            f"its fence is {fence}, it begins at {begin}, is void: {void}, its record has {record_bytes} bytes"
        )
    record = checked[record_start:record_end]
    try:
        newest = decode(record) if record else None
        table = EpochTable.from_disk(checked[record_end:])
    except (MalformedRecord, MalformedEpochTable) as error:
        raise _damaged(str(error)) from error
    return Kept(fence, newest, table, begin, bool(void))


def _read_head(content: bytes, version: int) -> tuple[int, int, int, int, int]:
    """Return fence, begin, void, and the place and size of the record."""
    head = _HEADS[version]
    start = _START.size + head.size
    if len(content) < start:
        raise _damaged(f"it has {len(content)} bytes")
    numbers = head.unpack_from(content, _START.size)
    fence, begin, void, record_bytes = numbers if version == FORMAT else (numbers[0], 0, 0, numbers[1])
    return fence, begin, void, start, record_bytes


def _damaged(why: str) -> KeptUnreadable:
    return KeptUnreadable(f"is damaged ({why}). {_RESTORE}")


def _version(kept: Kept) -> int:
    return kept.newest.version if kept.newest else 0
