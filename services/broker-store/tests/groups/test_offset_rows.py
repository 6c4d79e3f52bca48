"""Records of offsets: their bytes, and pieces that fit into them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.groups.offset_rows import (
    OFFSETS_PER_PIECE,
    DumpPart,
    OffsetRows,
    Origin,
    decode_rows,
    encode_rows,
    pieces_of,
)
from gantry_wire.errors import MalformedBody

NAMES = st.text(min_size=1, max_size=6)
OFFSETS = st.dictionaries(st.integers(0, 70_000), st.none() | st.integers(0, 2**63 - 1), max_size=5)


def test_a_record_is_json():
    rows = OffsetRows(7, [("t", "g", {0: 12, 1: None})], DumpPart(5, 3, is_last=True), Origin("4f", ""))
    assert encode_rows(rows) == (
        b'{"number":7,"rows":[["t","g",{"0":12,"1":null}]],"dump":[5,3,true],"origin":["4f",""]}'
    )
    assert encode_rows(OffsetRows(1, [])) == b'{"number":1,"rows":[]}'


@given(st.integers(1, 2**62), st.lists(st.tuples(NAMES, NAMES, OFFSETS), max_size=4))
def test_a_record_is_read_as_it_was_written(number, rows):
    assert decode_rows(encode_rows(OffsetRows(number, rows))) == OffsetRows(number, rows)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"number":1}',
        b'{"number":1,"rows":[["t","g"]]}',
        b'{"number":1,"rows":[["t","g",{"x":1}]]}',
    ],
)
def test_what_is_no_record_is_refused(body):
    with pytest.raises(MalformedBody):
        decode_rows(body)


def test_a_wide_topic_is_cut_into_pieces_that_are_about_as_large_as_they_say():
    ids = tuple(range(2 * OFFSETS_PER_PIECE + 1))
    pieces = list(pieces_of({("topic", "group"): ids}))
    assert [len(piece.queue_ids) for piece in pieces] == [OFFSETS_PER_PIECE, OFFSETS_PER_PIECE, 1]
    assert tuple(queue_id for piece in pieces for queue_id in piece.queue_ids) == ids
    row = (*pieces[0][:2], dict.fromkeys(pieces[0].queue_ids, 10**8))
    assert 0.5 < pieces[0].size / len(msgspec.json.encode(row)) < 2
