"""The journal of offsets that earlier versions wrote."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.groups.old_journal import Line, drop_older_journal, read_lines
from broker_store.log.files.simulated_files import SimulatedFiles

PATH = "/store/gantry/offsets.journal"


def line(number, offset=0):
    text = json.dumps([number, "t", "g", 0, offset or number]).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def test_lines_are_read_up_to_the_first_torn_one():
    lines = line(1), line(2), line(3)
    assert read_lines(b"".join(lines)) == [Line(n, "t", "g", 0, n) for n in (1, 2, 3)]
    assert [one.number for one in read_lines(lines[0] + lines[1][:-1])] == [1]
    assert [one.number for one in read_lines(lines[0] + b"\0" + lines[1][1:] + lines[2])] == [1]


@given(cut=st.integers(0, 400), flip=st.integers(0, 400))
def test_any_torn_or_flipped_journal_gives_a_clean_prefix(cut, flip):
    whole = b"".join(map(line, range(1, 6)))
    content = bytearray(whole[: max(len(whole) - cut, 0)])
    if content:
        content[flip % len(content)] ^= 1
    numbers = [one.number for one in read_lines(bytes(content))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) < 5


@pytest.mark.parametrize(
    ("file", "is_kept"),
    [
        (b'{"offsetTable":{"t@g":{0:9}}}', False),
        (b'{"gantryJournal":3,"offsetTable":{}}', True),
        (b'{"gantryNumber":3,"offsetTable":{}}', True),
        (b"damaged", True),
        (None, True),
    ],
)
def test_the_file_of_another_broker_is_newer_than_the_journal(file, is_kept):
    files = SimulatedFiles()
    for name in ("gantry", "config"):
        files.make_dirs(f"/store/{name}")
    files.replace_atomically(PATH, line(1))
    if file is not None:
        files.replace_atomically("/store/config/consumerOffset.json", file)
    drop_older_journal(files, "/store/config", PATH)
    for left in files.crash_states(4):
        assert left.exists(PATH) is is_kept
