"""The decoder on a damaged log: every row is correct or reported as lost, none is returned twice."""

import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from logs_made import LogMade
from naive_decoder import decoded

from gantry_spark.decode.schema import COLUMNS
from gantry_spark.decode.segments import Damaged, LandedElsewhere, LogRange, Wanted, read

NAMES = tuple(COLUMNS)
PLACES = {"size": 3, "magic": 5, "position": 30, "system flag": 39, "body size": 87, "size, far": 0}


def read_all(path: Path, log: LogMade, stop: int | None = None, **wanted) -> tuple[pa.Table, list[Damaged]]:
    lost: list[Damaged] = []
    piece = LogRange(
        str(path), log.base, log.base, log.base + path.stat().st_size if stop is None else stop, "broker-a"
    )
    wanted.setdefault("columns", NAMES)
    batches = list(read(piece, Wanted(**wanted), lost.append))
    return pa.Table.from_batches(batches, None if batches else pa.schema([])), lost


def without(log: LogMade, sound: bytes, *gone: int) -> pa.Table:
    table = decoded(sound, log.base, NAMES)
    return table.filter([position not in gone for position in table["physicalOffset"].to_pylist()])


@pytest.mark.parametrize("count", [40, 1500])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("victim", [0, 17, -1])
def test_one_damaged_record_is_the_only_one_lost_and_is_reported(tmp_path, count, place, victim) -> None:
    log = LogMade(base=4096)
    log.add_many(count)
    sound = log.bytes()
    damaged = log.positions[victim]
    log.flip(damaged + PLACES[place], 0x10)
    table, lost = read_all(log.write(tmp_path), log)
    assert [row.position for row in lost] == [damaged]
    assert lost[0].broker == "broker-a"
    assert lost[0].why
    assert lost[0].sample == log.bytes()[damaged - 4096 :][:128][: lost[0].size]
    assert table.equals(without(log, sound, damaged))


def test_every_flipped_byte_of_a_header_or_length_is_handled(tmp_path) -> None:
    """A row is lost and reported, or present; no other row changes."""
    log = LogMade()
    log.add_many(30)
    sound = log.bytes()
    start, end = log.positions[14:16]
    for byte in range(end - start):
        log.content = bytearray(sound)
        log.flip(start + byte, 0x41)
        table, lost = read_all(log.write(tmp_path), log, check_crc=True)
        others = without(log, sound, start)
        rest = table.filter([position != start for position in table["physicalOffset"].to_pylist()])
        assert rest.equals(others)
        assert table.num_rows + len(lost) == 30
        assert [row.position for row in lost] in ([], [start])


def test_a_flipped_body_is_lost_when_the_crc_is_checked(tmp_path) -> None:
    log = LogMade()
    log.add_many(200)
    sound = log.bytes()
    log.flip(log.positions[50] + 90)
    path = log.write(tmp_path)
    table, lost = read_all(path, log, check_crc=True)
    assert table.equals(without(log, sound, log.positions[50]))
    assert [(row.position, row.size) for row in lost] == [
        (log.positions[50], log.positions[51] - log.positions[50])
    ]
    assert "CRC" in lost[0].why
    assert read_all(path, log)[0].num_rows == 200


def test_a_hole_of_many_records_is_reported_once_with_its_size(tmp_path) -> None:
    log = LogMade(base=1 << 30)
    log.add_many(2500)
    sound = log.bytes()
    start, end = log.positions[1000], log.positions[1400] + 7
    log.content[start - log.base : end - log.base] = random.Random(3).randbytes(end - start)
    table, lost = read_all(log.write(tmp_path), log)
    assert [(row.position, row.position + row.size) for row in lost] == [(start, log.positions[1401])]
    assert table.equals(without(log, sound, *log.positions[1000:1401]))


def test_zeros_between_records_are_a_hole_not_an_end(tmp_path) -> None:
    log = LogMade()
    log.add_many(300)
    sound = log.bytes()
    start, end = log.positions[100], log.positions[200]
    log.content[start:end] = bytes(end - start)
    table, lost = read_all(log.write(tmp_path), log)
    assert [(row.position, row.size) for row in lost] == [(start, end - start)]
    assert table.equals(without(log, sound, *log.positions[100:200]))


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 60, 91, -1])
@pytest.mark.parametrize("size", [None, 100_000])
def test_a_torn_last_record_is_not_a_row(tmp_path, kept, size) -> None:
    """Cut at the end of the file, or followed by the zeros of a preallocated file."""
    log = LogMade()
    log.add_many(50)
    sound = log.bytes()
    last = log.positions[-1]
    end = last + kept if kept >= 0 else log.end - 1
    del log.content[end:]
    log.size = size
    table, lost = read_all(log.write(tmp_path), log)
    assert table.equals(without(log, sound, last))
    assert [row.position for row in lost] == [last] * (kept not in {0, 1})  # the first byte of a size is zero


def test_a_partly_written_record_before_zeros_is_not_a_row(tmp_path) -> None:
    """Its sizes are correct; its properties were never written."""
    log = LogMade(size=60_000)
    log.add_many(20)
    last = log.add("orders", b"x" * 100, properties={"KEYS": "k" * 700})
    log.content[-600:] = bytes(600)
    table, lost = read_all(log.write(tmp_path), log)
    assert table.num_rows == 20
    assert [row.position for row in lost] == [last]


def test_a_partly_written_body_before_zeros_is_not_a_row(tmp_path) -> None:
    log = LogMade(size=60_000)
    log.add_many(20)
    last = log.add("orders", b"x" * 2000)
    log.content[last + 1000 : last + 1512] = bytes(512)
    table, lost = read_all(log.write(tmp_path), log)
    assert table.num_rows == 20
    assert [row.position for row in lost] == [last]


def test_a_negative_offset_or_an_impossible_time_is_not_a_row(tmp_path) -> None:
    log = LogMade()
    log.add_many(20)
    log.flip(log.positions[3] + 20, 0x80)
    log.flip(log.positions[5] + 56, 0x40)
    table, lost = read_all(log.write(tmp_path), log)
    assert [row.position for row in lost] == [log.positions[3], log.positions[5]]
    assert table.num_rows == 18


def test_a_producers_impossible_time_is_null(tmp_path) -> None:
    log = LogMade()
    log.add(born_ms=-1)
    log.add(born_ms=(1 << 63) - 1)
    log.add()
    table, lost = read_all(log.write(tmp_path), log, columns=("bornTimestamp",))
    assert not lost
    assert [value is None for value in table["bornTimestamp"].to_pylist()] == [True, True, False]


def test_a_stop_inside_a_record_is_refused(tmp_path) -> None:
    log = LogMade()
    log.add_many(30)
    path = log.write(tmp_path)
    with pytest.raises(LandedElsewhere, match="snapshot"):
        read_all(path, log, stop=log.positions[20] + 50)


def test_a_segment_shorter_than_planned_is_refused(tmp_path) -> None:
    log = LogMade()
    log.add_many(30)
    path = log.write(tmp_path)
    with pytest.raises(LandedElsewhere, match="snapshot"):
        read_all(path, log, stop=log.end + 1)


def test_a_missing_segment_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        list(read(LogRange(str(tmp_path / "no-such"), 0, 0, 100, "b"), Wanted(("topic",)), lambda _: None))


def test_a_blank_with_a_wrong_size_ends_the_segment_if_nothing_follows(tmp_path) -> None:
    log = LogMade(size=40_000)
    log.add_many(30)
    log.blank()
    struct.pack_into(
        ">i", log.content, log.positions[-1] + struct.unpack_from(">i", log.content, log.positions[-1])[0], 9
    )
    table, lost = read_all(log.write(tmp_path), log)
    assert (table.num_rows, lost) == (30, [])
