"""`gantry/offsets.journal` of earlier versions: commits that were answered since `consumerOffset.json` was written.

A start takes it over once, and the first save of the offsets removes it.

    line: CRC32 of the rest (8 hex digits), space, JSON [number, topic, group, queue id, offset], newline
"""

from pathlib import PurePath
from typing import NamedTuple
from zlib import crc32

import msgspec

from broker_store.config.config_files import ConfigFile
from broker_store.groups.offset_file import JOURNAL_FIELD, NUMBER_FIELD, OFFSETS_FILE, number_in
from broker_store.log.files.files import Files

JOURNAL_FILE = "offsets.journal"
_CRC_CHARS = 9


class Line(NamedTuple):
    """One commit."""

    number: int
    topic: str
    group: str
    queue_id: int
    offset: int


def read_lines(content: bytes) -> list[Line]:
    """Return the intact lines, up to the first torn one. What follows it was never answered."""
    lines: list[Line] = []
    for line in content.splitlines(keepends=True):
        text = line[_CRC_CHARS:-1]
        if not line.endswith(b"\n") or line[:_CRC_CHARS] != f"{crc32(text):08x} ".encode():
            break
        try:
            lines.append(msgspec.json.decode(text, type=Line))
        except msgspec.DecodeError:
            break
    return lines


def remove_journal(files: Files, path: str) -> None:
    """Remove the journal durably, if there is one. Blocks; raises OSError."""
    if files.exists(path):
        files.remove(path)
        files.sync_dir(str(PurePath(path).parent))


def drop_older_journal(files: Files, config_dir: str, path: str) -> None:
    """Durably remove the journal if another broker has written consumerOffset.json: that file is newer than all its lines.

    Call it before the directory becomes ours: later lines follow on the other broker's file.
    """
    content = ConfigFile(files, f"{config_dir}/{OFFSETS_FILE}").load()
    is_ours = number_in(content, JOURNAL_FIELD) is not None or number_in(content, NUMBER_FIELD) is not None
    if isinstance(content, dict) and not is_ours:
        remove_journal(files, path)
