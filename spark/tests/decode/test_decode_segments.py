"""The decoder against a naive one: equal tables for any valid log, for any split into pieces and blocks."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs_made import START_MS, LogMade
from naive_decoder import decoded

from gantry_spark.decode import blocks
from gantry_spark.decode.schema import COLUMNS, UnknownColumn, arrow_schema
from gantry_spark.decode.segments import Damaged, LogRange, Wanted, next_record, read

NAMES = (*COLUMNS, "property:region", "property:no such")


def read_piece(path: Path, log: LogMade, start: int | None = None, stop: int | None = None, **wanted):
    lost: list[Damaged] = []
    piece = LogRange(
        str(path),
        log.base,
        log.base if start is None else start,
        log.base + path.stat().st_size if stop is None else stop,
        "broker-a",
    )
    wanted.setdefault("columns", NAMES)
    batches = list(read(piece, Wanted(**wanted), lost.append))
    schema = arrow_schema(wanted["columns"])
    assert all(batch.schema.equals(schema) and batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema), lost


def mixed(count: int = 400, base: int = 1 << 30, size: int | None = None) -> LogMade:
    """Everything that a valid log can contain."""
    log = LogMade(base, size)
    log.add_many(count)
    log.add_forged(gap=b"12")
    log.add("%RETRY%" + "g" * 200, b"long topic")
    log.add("v6", b"six", born_host=("2001:db8::1", 5), store_host=("10.0.0.2", 1))
    log.add("v6", b"six", store_host=("2001:db8::2", 5), properties={"TAGS": "t"})
    log.add("v6" * 80, b"", born_host=("::1", 5), store_host=("2001:db8::2", 5), sys_flag=8)
    log.add_many(count, seed=2)
    log.add("empty")
    log.add(
        "flags",
        b"b",
        flag=-3,
        sys_flag=4,
        reconsume_times=3,
        prepared_position=99,
        properties=b"no last\x01mark",
    )
    return log


@pytest.mark.parametrize("end", ["blank", "zeros", "file"])
def test_a_log_of_everything_equals_the_naive_decoders(tmp_path, end) -> None:
    log = mixed(size=None if end == "file" else 400_000)
    if end == "blank":
        log.blank()
    table, lost = read_piece(log.write(tmp_path), log)
    assert not lost
    assert table.equals(decoded(log.bytes(), log.base, NAMES))


ODD_PROPERTIES = st.one_of(
    st.binary(max_size=20),
    st.lists(
        st.sampled_from(
            [
                b"TAGS\x01a\x02",
                b"TAGS\x01b\x02",
                b"KEYS\x01",
                b"\x02",
                b"\x01",
                b"region",
                b"\x00",
                b"\xff",
                "é".encode(),
            ]
        ),
        max_size=5,
    ).map(b"".join),
    st.dictionaries(
        st.sampled_from(["TAGS", "KEYS", "region", "ключ"]), st.text("aé\x03 ", min_size=1), max_size=3
    ),
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["a", "orders", "тема", "x" * 127, "y" * 128]),
            "body": st.binary(max_size=300),
            "properties": ODD_PROPERTIES,
            "queue_id": st.integers(0, 3),
            "born_host": st.sampled_from([("1.2.3.4", 5), ("2001:db8::1", 6)]),
        }
    ),
    max_size=30,
)


@given(MESSAGES)
@settings(max_examples=30)
def test_random_logs_equal_the_naive_decoders(tmp_path_factory, messages) -> None:
    log = LogMade(base=777)
    for message in messages:
        log.add(**message)
    path = log.write(tmp_path_factory.getbasetemp() / "random")
    # A zero byte at the end of properties counts as torn in front of zeros only: this file ends with its last record.
    table, lost = read_piece(path, log)
    assert not lost
    assert table.equals(decoded(log.bytes(), log.base, NAMES))


@pytest.mark.parametrize("block_bytes", [300, 5000, 70_000])
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, block_bytes) -> None:
    """Also cuts inside a header, and blocks smaller than a record."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    log = mixed(60, size=200_000)
    log.add("large", bytes(9000))
    log.blank()
    table, lost = read_piece(log.write(tmp_path), log)
    assert not lost
    assert table.equals(decoded(log.bytes(), log.base, NAMES))


def test_a_log_split_at_any_record_gives_each_row_once(tmp_path) -> None:
    log = mixed(8)
    path = log.write(tmp_path)
    whole, _ = read_piece(path, log, columns=("physicalOffset", "topic"))
    for position in log.positions[1:]:
        before, _ = read_piece(path, log, stop=position, columns=whole.column_names)
        behind, _ = read_piece(path, log, start=position, columns=whole.column_names)
        assert pa.concat_tables([before, behind]).equals(whole)


@pytest.mark.parametrize("gap", [b"", b"x" * 37])
def test_forged_messages_in_bodies_are_neither_rows_nor_split_points(tmp_path, gap) -> None:
    """Each embedded record holds the position where it is stored."""
    log = LogMade()
    for number in range(100):
        log.add_forged(count=3 + number % 20, gap=gap)
        log.add("orders", b"honest")
    path = log.write(tmp_path)
    table, lost = read_piece(path, log)
    assert not lost
    assert table["physicalOffset"].to_pylist() == log.positions
    real = set(log.positions)
    for at in range(1, log.end, log.end // 13):
        found = next_record(str(path), 0, at, log.end)
        assert found >= at
        assert found in real or found == log.end


def test_copies_of_other_parts_of_the_log_in_bodies_are_not_rows(tmp_path) -> None:
    log = LogMade()
    log.add_many(100)
    for _ in range(12):
        log.add("copies", bytes(log.content[-20_000:]))
    table, lost = read_piece(log.write(tmp_path), log)
    assert not lost
    assert table.equals(decoded(log.bytes(), 0, NAMES))


def test_every_split_point_is_the_next_record(tmp_path) -> None:
    log = LogMade(base=5000)
    log.add_many(20)
    path = log.write(tmp_path)
    points = sorted({*log.positions, log.end})
    for at in range(log.base, log.end, 17):
        assert next_record(str(path), log.base, at, log.end) == next(point for point in points if point >= at)


def test_a_split_point_before_a_blank_is_the_end(tmp_path) -> None:
    log = LogMade(size=30_000)
    log.add_many(20)
    log.blank()
    path = log.write(tmp_path)
    assert next_record(str(path), 0, log.positions[-1] + 1, 30_000) == 30_000


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_compressed_bodies_are_decompressed_on_request(tmp_path, kind) -> None:
    log = LogMade()
    log.add("plain", b"plain")
    log.add_packed("orders", b"abc" * 1000, kind)
    path = log.write(tmp_path)
    assert read_piece(path, log, columns=("body",))[0].equals(decoded(log.bytes(), 0, ("body",)))
    table, lost = read_piece(path, log, columns=("body", "bodySize"), decompress=True)
    assert table["body"].to_pylist() == [b"plain", b"abc" * 1000]
    assert table["bodySize"][1].as_py() < 3000
    assert not lost


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
@pytest.mark.parametrize("spoil", [lambda body: body[:-5], lambda body: b"??" + body[2:]])
def test_a_body_that_cannot_be_decompressed_is_damage(tmp_path, kind, spoil) -> None:
    made = LogMade()
    made.add_packed("orders", bytes(range(256)) * 40, kind)
    record = made.content[88:]
    log = LogMade()
    log.add("before")
    size = int.from_bytes(made.content[84:88])
    flag = int.from_bytes(made.content[36:40])
    broken = log.add("orders", spoil(bytes(record[:size])), sys_flag=flag)
    log.add("behind", b"b")
    table, lost = read_piece(log.write(tmp_path), log, columns=("topic", "body"), decompress=True)
    assert table["topic"].to_pylist() == ["before", "behind"]
    assert [row.position for row in lost] == [broken]
    assert "decompressed" in lost[0].why or "ends inside" in lost[0].why


def test_filters_choose_rows(tmp_path) -> None:
    log = mixed()
    path = log.write(tmp_path)
    every = decoded(log.bytes(), log.base, NAMES).to_pylist()
    low, high = START_MS + 50, START_MS + 90
    table, lost = read_piece(
        path,
        log,
        topics=frozenset({"topic-0", "topic-2", "v6", "none"}),
        queues=frozenset({0, 2}),
        store_ms=(low, high),
    )
    assert not lost
    assert table.num_rows
    assert table.to_pylist() == [
        row
        for row in every
        if row["topic"] in {"topic-0", "topic-2", "v6"}
        and row["queueId"] in {0, 2}
        and low <= row["storeTimestamp"].timestamp() * 1000 < high
    ]


def test_batches_are_bounded_and_small_ones_joined(tmp_path) -> None:
    log = LogMade()
    log.add_many(1000)
    piece = LogRange(str(log.write(tmp_path)), 0, 0, log.end, "b")
    sizes = [batch.num_rows for batch in read(piece, Wanted(("topic",), batch_rows=300), lambda _: None)]
    assert sizes == [300, 300, 300, 100]


def test_a_piece_may_be_read_through_a_uri(tmp_path) -> None:
    log = mixed(50)
    path = log.write(tmp_path)
    piece = LogRange(path.as_uri(), log.base, log.base, log.end, "broker-a")
    table = pa.Table.from_batches(list(read(piece, Wanted(NAMES), lambda _: None)))
    assert table.equals(decoded(log.bytes(), log.base, NAMES))


def test_an_unknown_column_is_refused(tmp_path) -> None:
    log = mixed(5)
    with pytest.raises(UnknownColumn):
        read_piece(log.write(tmp_path), log, columns=("offset",))


def test_names_may_have_any_case_and_occur_twice(tmp_path) -> None:
    log = mixed(5)
    table, _ = read_piece(log.write(tmp_path), log, columns=("QUEUEID", "queueId"))
    assert table.column(0).equals(table.column(1))
