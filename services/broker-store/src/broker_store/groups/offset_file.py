"""`config/consumerOffset.json`: RocketMQ's file of committed offsets. Pure: knows its format, and when a start takes it instead of the log.

    {"dataVersion":{…},"gantryNumber":7,"offsetTable":{"topic@group":{0:12,1:9}}}

with bare integer keys. `gantryNumber` is the number of the last record of offsets that the file includes. RocketMQ ignores it, and leaves
it out when it writes the file itself. Earlier versions of this store wrote `gantryJournal` instead: the number of the last line of
`gantry/offsets.journal` that the file includes.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, cast

import msgspec

from broker_store.groups.offset_rows import NO_ORIGIN, Key, Origin
from gantry_wire.bodies.cluster import DataVersion

OFFSETS_FILE = "consumerOffset.json"
NUMBER_FIELD = "gantryNumber"
JOURNAL_FIELD = "gantryJournal"
_SEPARATOR = "@"
_DIGEST_BYTES = 8

Offsets = dict[Key, dict[int, int]]


class FileContent(NamedTuple):
    """What the file of offsets says, with those lines of an earlier version's journal that the log does not have."""

    offsets: Offsets
    number: int | None
    """None: RocketMQ or an earlier version wrote the file last, or there is none."""
    version: DataVersion | None
    """None where the file has none."""
    origin: Origin
    is_newest: bool
    """The file itself was read, not its backup."""
    has_lines: bool
    """An earlier version of the store has committed offsets since it wrote the file."""


class LogContent(NamedTuple):
    """What the log says."""

    number: int
    """The number of the newest record, 0 if there never was one."""
    origin: Origin
    """The files that the log has taken over."""
    taking: Origin | None = None
    """The files that it has taken over in part, before a crash."""


def does_file_win(file: FileContent, log: LogContent, *, was_stopped: bool) -> bool:
    """Whether a start takes the file instead of the log. `was_stopped`: this store wrote to the directory last, and stopped in order.

    The file counts if the log has no offsets, or has taken over a part of the file; if another program wrote it, and the log has not taken
    it over; and after an orderly stop, when it has the log's number: then it is equal, unless an operator has changed it.
    """
    if file.origin == NO_ORIGIN:
        return False
    if not log.number or file.has_lines or file.origin == log.taking:
        return True
    if not file.is_newest:
        return False
    if file.number is None:
        return file.origin.file != log.origin.file
    return was_stopped and file.number == log.number


def digest_of(content: bytes | None) -> str:
    """Return what identifies the bytes of a file, an empty text for None."""
    return "" if content is None else blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def encode_offsets(
    offsets: Iterable[tuple[str, str, Mapping[int, int]]], version: DataVersion, number: int
) -> bytes:
    """Return the content of the file."""
    lines = ",\n\t\t".join(
        f"{_name(topic, group)}:{{{','.join([f'{queue_id}:{offset}' for queue_id, offset in of_queues.items()])}}}"
        for topic, group, of_queues in offsets
    )
    return (
        f'{{\n\t"dataVersion":{msgspec.json.encode(version).decode()},\n\t"{NUMBER_FIELD}":{number},'
        f'\n\t"offsetTable":{{\n\t\t{lines}\n\t}}\n}}'
    ).encode()


def read_offsets(content: object) -> Offsets:
    """Return the offsets of a file's content. Skips invalid ones."""
    found: Offsets = {}
    for name, offsets in _items(_fields(content).get("offsetTable")):
        topic, separator, group = str(name).partition(_SEPARATOR)
        if separator and topic and group:
            found[topic, group] = _read_queues(offsets)
    return found


def number_in(content: object, field: str) -> int | None:
    """Return NUMBER_FIELD or JOURNAL_FIELD of a file's content, None where it has no such number."""
    number = _fields(content).get(field)
    return number if isinstance(number, int) else None


def version_in(content: object) -> DataVersion | None:
    """Return the version in a file's content, a new one if it cannot be read, None if there is none."""
    fields = _fields(content)
    if "dataVersion" not in fields:
        return None
    try:
        return msgspec.convert(fields["dataVersion"], DataVersion, strict=False)
    except msgspec.ValidationError:
        return DataVersion()


def _read_queues(offsets: object) -> dict[int, int]:
    of_queues: dict[int, int] = {}
    for queue_id, offset in _items(offsets):
        try:
            of_queues[int(cast("int", queue_id))] = int(cast("int", offset))
        except (TypeError, ValueError):
            continue
    return of_queues


def _name(topic: str, group: str) -> str:
    return msgspec.json.encode(f"{topic}{_SEPARATOR}{group}").decode()


def _fields(content: object) -> "dict[object, object]":
    return cast("dict[object, object]", content) if isinstance(content, dict) else {}


def _items(table: object) -> Iterable[tuple[object, object]]:
    return _fields(table).items()
