"""A batch body divides exactly into its messages, or is refused as a whole."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedBatch
from gantry_wire.frames.encode import encode_request
from gantry_wire.limits import BATCH_MESSAGES_MAX, BODY_BYTES_MAX, FRAME_BYTES_MAX, PER_ITEM_BATCH_BYTES_MAX
from gantry_wire.messages import batch
from gantry_wire.messages.batch import BatchItem, decode_batch, encode_batch

ITEMS = st.lists(
    st.builds(BatchItem, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40)),
    min_size=1,
    max_size=6,
)


def item(size: int, body_size: int, body: bytes, properties_size: int, properties: bytes = b"") -> bytes:
    return (
        struct.pack(">iiiii", size, 0, 0, 0, body_size)
        + body
        + struct.pack(">h", properties_size)
        + properties
    )


@given(ITEMS)
def test_a_batch_round_trips(items):
    assert decode_batch(encode_batch(items)) == items


def test_the_layout_equals_that_of_java():
    expected = struct.pack(">iiiii", 27, 0, 0, 7, 3) + b"abc" + struct.pack(">h", 2) + b"pp"
    assert encode_batch([BatchItem(7, b"abc", b"pp")]) == expected


@given(ITEMS, st.data())
def test_a_flipped_bit_or_a_cut_gives_messages_or_the_documented_error(items, data):
    body = bytearray(encode_batch(items))
    bit = data.draw(st.integers(0, len(body) * 8 - 1))
    body[bit // 8] ^= 1 << bit % 8
    for candidate in (bytes(body), bytes(body)[: bit // 8]):
        try:
            found = decode_batch(candidate)
        except MalformedBatch:
            continue
        assert sum(22 + len(part.body) + len(part.properties) for part in found) == len(candidate)


@given(st.binary(max_size=80))
def test_any_bytes_give_messages_or_the_documented_error(data):
    with suppress(MalformedBatch):
        assert len(encode_batch(decode_batch(data))) == len(data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (bytes(19), "inside its lengths"),
        (bytes(20), "does not fit"),
        (bytes(22), "contradict its size"),
        (item(22, -1, b"", 0), "body of -1"),
        (item(22, 2**31 - 1, b"", 0), "body of 2147483647"),
        (item(21, 0, b"", -1), "contradict"),
        (item(24, 0, b"", 2, b"p"), "contradict"),
        (item(23, 0, b"", 0, b"p"), "contradict"),
        (item(22, 0, b"", 0) + b"x", "item 1 ends inside"),
    ],
)
def test_wrong_lengths_refuse_the_whole_batch(body, message):
    with pytest.raises(MalformedBatch, match=message) as caught:
        decode_batch(body)
    assert caught.value.code == 13


@pytest.mark.parametrize(
    "items",
    [[], [BatchItem(0, bytes(BODY_BYTES_MAX - 21), b"")], [BatchItem(0, b"", bytes(32768))]],
)
def test_a_batch_beyond_a_limit_is_not_written(items):
    with pytest.raises(MalformedBatch, match="the limit is"):
        encode_batch(items)


def test_a_batch_at_its_limit_is_accepted():
    assert len(encode_batch([BatchItem(0, bytes(BODY_BYTES_MAX - 22), b"")])) == BODY_BYTES_MAX


def test_a_batch_with_a_result_per_item_can_fill_a_frame():
    item = BatchItem(0, bytes(BODY_BYTES_MAX - 22), b"")
    last = BatchItem(0, bytes(PER_ITEM_BATCH_BYTES_MAX - 3 * BODY_BYTES_MAX - 22), b"")
    batch = encode_batch([item, item, item, last], PER_ITEM_BATCH_BYTES_MAX)
    header = {"b": "t" * 255, "i": "p" * 60_000}
    assert len(encode_request(320, 1, header, batch)) <= FRAME_BYTES_MAX
    with pytest.raises(MalformedBatch, match="the limit is"):
        encode_batch([item, item, item, last, BatchItem(0, b"", b"")], PER_ITEM_BATCH_BYTES_MAX)


@given(st.data())
def test_messages_of_one_size_decode_like_messages_of_any_size(data):
    sizes = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    items = data.draw(
        st.lists(
            st.builds(
                BatchItem,
                st.integers(-(2**31), 2**31 - 1),
                st.binary(min_size=sizes[0], max_size=sizes[0]),
                st.binary(min_size=sizes[1], max_size=sizes[1]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    body = encode_batch(items)
    assert decode_batch(body) == items
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + bytes((data.draw(st.integers(0, 255)),)) + body[at + 1 :]
    try:
        each = batch._decode_each(changed)
    except MalformedBatch:
        with pytest.raises(MalformedBatch):
            decode_batch(changed)
    else:
        assert decode_batch(changed) == each


@pytest.mark.parametrize("sizes", [(0,), (0, 1)], ids=["even", "uneven"])
def test_a_batch_with_too_many_messages_is_refused_with_the_limit(sizes):
    def batch(count):
        return [BatchItem(0, b"x" * sizes[n % len(sizes)], b"") for n in range(count)]

    assert len(decode_batch(encode_batch(batch(BATCH_MESSAGES_MAX)))) == BATCH_MESSAGES_MAX
    with pytest.raises(MalformedBatch, match=f"{BATCH_MESSAGES_MAX}; send it in parts"):
        encode_batch(batch(BATCH_MESSAGES_MAX + 1))
    one_more = encode_batch(batch(BATCH_MESSAGES_MAX)) + encode_batch(batch(1))
    with pytest.raises(MalformedBatch, match=f"more than {BATCH_MESSAGES_MAX} messages; send it in parts"):
        decode_batch(one_more)
