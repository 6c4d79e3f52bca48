"""The epoch table: where two logs part, what a cut leaves of it, and its bytes."""

import contextlib
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.replication.epochs import ENTRIES_MAX, Epoch, EpochTable, MalformedEpochTable

Log = tuple[EpochTable, tuple[tuple[int, int], ...]]
"""A table, and the log itself: an entry is the epoch that wrote it and its number within the log."""


def prefix(log: Log, end: int) -> Log:
    table, entries = log
    return table.until(end), entries[:end]


def led(log: Log, epoch: int, count: int) -> Log:
    """A leader continues a log in a new epoch."""
    table, entries = log
    added = tuple((epoch, len(entries) + number) for number in range(count))
    return table.with_epoch(epoch, len(entries)), entries + added


@st.composite
def histories(draw) -> list[Log]:
    """Logs of replicas that copied parts of others, and of leaders that continued such a part. No two leaders share an epoch."""
    logs: list[Log] = [led((EpochTable(), ()), 1, draw(st.integers(0, 6)))]
    for epoch in range(2, draw(st.integers(2, 9))):
        source = draw(st.sampled_from(logs))
        copied = prefix(source, draw(st.integers(0, len(source[1]))))
        logs.append(copied)
        logs.append(led(copied, epoch, draw(st.integers(0, 4))))
    return logs


@given(histories())
def test_logs_part_exactly_where_the_tables_say(logs: list[Log]):
    for table, entries in logs:
        for other_table, other_entries in logs:
            pairs = zip(entries, other_entries, strict=False)
            same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
            assert table.common_end(len(entries), other_table, len(other_entries)) == same


@given(histories(), st.integers(0, 30))
def test_a_cut_log_is_found_equal_up_to_the_cut(logs: list[Log], end: int):
    table, entries = logs[-1]
    end = min(end, len(entries))
    assert table.until(end).common_end(end, table, len(entries)) == end


def test_entries_beyond_the_end_are_dropped_and_one_at_the_end_stays():
    table = EpochTable((Epoch(1, 0), Epoch(2, 100), Epoch(3, 120)))
    assert table.until(119).entries == (Epoch(1, 0), Epoch(2, 100))
    assert table.until(120) == table
    assert table.until(0).entries == (Epoch(1, 0),)


def test_an_epoch_from_another_start_is_not_common():
    mine = EpochTable((Epoch(1, 0), Epoch(2, 100)))
    assert mine.common_end(150, EpochTable((Epoch(1, 0), Epoch(2, 90))), 150) == 90


def test_tables_without_a_common_epoch_share_nothing():
    assert EpochTable((Epoch(1, 0),)).common_end(50, EpochTable((Epoch(2, 0),)), 50) == 0
    assert EpochTable().common_end(50, EpochTable((Epoch(1, 0),)), 50) == 0


@pytest.mark.parametrize(
    "entries",
    [
        (Epoch(2, 0), Epoch(1, 5)), (Epoch(1, 0), Epoch(1, 5)), (Epoch(1, 9), Epoch(2, 5)), (Epoch(0, 0),),
        (Epoch(1, -1),), (Epoch(1 << 63, 0),),
    ],
)  # fmt: skip
def test_a_table_out_of_order_is_malformed(entries):
    with pytest.raises(MalformedEpochTable):
        EpochTable(entries)


@st.composite
def tables(draw) -> EpochTable:
    epochs = sorted(draw(st.sets(st.integers(1, 1 << 62), max_size=8)))
    starts = sorted(draw(st.lists(st.integers(0, 1 << 62), min_size=len(epochs), max_size=len(epochs))))
    return EpochTable(tuple(map(Epoch, epochs, starts)))


@given(tables())
def test_a_table_survives_disk_and_wire(table: EpochTable):
    assert EpochTable.from_disk(table.to_disk()) == table
    assert EpochTable.from_wire(table.to_wire()) == table


@given(tables(), st.data())
def test_a_damaged_or_torn_file_is_malformed(table: EpochTable, data):
    content = bytearray(table.to_disk())
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    torn = bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    content[bit // 8] ^= 1 << bit % 8
    for damaged in (bytes(content), torn, table.to_disk() + b"\0"):
        with pytest.raises(MalformedEpochTable):
            EpochTable.from_disk(damaged)


@given(st.binary(max_size=100))
def test_any_bytes_of_a_peer_are_a_table_or_malformed(data: bytes):
    with contextlib.suppress(MalformedEpochTable):
        assert EpochTable.from_wire(data).to_wire() == data


def test_the_bytes_on_disk_are_as_described():
    assert EpochTable((Epoch(1, 0), Epoch(7, 258))).to_disk() == bytes.fromhex(
        "47455054 0001 000000020000000000000001 00000000000000000000000000000007 000000000000010261ac87b1"
    )


def test_a_table_has_a_bound():
    entries = tuple(Epoch(number, 0) for number in range(1, ENTRIES_MAX + 2))
    assert len(EpochTable(entries[:-1]).entries) == ENTRIES_MAX
    with pytest.raises(MalformedEpochTable):
        EpochTable(entries)
    with pytest.raises(MalformedEpochTable):
        EpochTable.from_wire((ENTRIES_MAX + 1).to_bytes(4, "big"))
