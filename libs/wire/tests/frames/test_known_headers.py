"""The fast path for binary send headers always gives the same result as the full decoder."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedHeader
from gantry_wire.frames.binary_header import decode_binary_header
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, FrameDecoder, RawFrame
from gantry_wire.frames.known_headers import SIZES_MAX, KnownHeaders
from gantry_wire.headers.messages import SendHeaderV2

TEXT = "UNIQ_KEY\x017F0000010B2C63947C6B8D4F00010002\x02WAIT\x01true\x02"


@pytest.fixture
def headers():
    return KnownHeaders()


def read(headers, raw):
    """Read a header as the store does."""
    return headers.read(raw, headers.find(raw.header))


def send(opaque=1, queue_id=3, born=1_700_000_000_000, properties=TEXT, code=310, **more):
    header = SendHeaderV2(
        producer_group="pg", topic="orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
        sys_flag=0, born_timestamp=born, flag=0, properties=properties, reconsume_times=0, unit_mode=False,
        max_reconsume_times=0, batch=False, broker_name="broker-a",
    )  # fmt: skip
    for name, value in more.items():
        setattr(header, name, value)
    return FrameDecoder().receive(encode_request(code, opaque, header, b"body", serialize_type=BINARY))[0]


def read_in_full(raw):
    return decode_binary_header(raw.header)


def check(headers, raw):
    command, full = read(headers, raw), read_in_full(raw)
    assert (
        command.code,
        command.opaque,
        command.flag,
        command.version,
        command.language,
        command.remark,
    ) == (
        full.code,
        full.opaque,
        full.flag,
        full.version,
        full.language,
        full.remark,
    )
    assert command.ext == full.fields
    assert (command.body, command.serialize_type) == (raw.body, BINARY)
    return command


def test_the_second_header_of_a_client_is_known(headers):
    check(headers, send())
    again = check(headers, send(opaque=2, queue_id=1, born=1_700_000_000_999))
    assert isinstance(again.fields, SendHeaderV2)
    assert (again.opaque, again.fields.queue_id, again.fields.born_timestamp) == (2, 1, 1_700_000_000_999)
    first = check(headers, send(opaque=-5))
    assert first.opaque == -5
    assert again.fields.queue_id == 1, "two commands share no mutable state"


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "ordert"},
        {"producer_group": "px"},
        {"flag": 7},
        {"batch": True},
        {"broker_name": "broker-b"},
        {"code": 320},
        {"queue_id": 12},
        {"queue_id": -1},
        {"properties": TEXT + "a\x01b\x02"},
        {"properties": "é" * (len(TEXT) // 2)},
        {"born": 99},
    ],
)
def test_a_header_with_other_values_is_read_correctly(headers, other):
    check(headers, send())
    for _ in range(3):
        check(headers, send(**other))
    check(headers, send())


def test_several_topics_of_one_size_are_all_known(headers):
    for topic in ("orders", "ordert", "orderu"):
        check(headers, send(topic=topic))
    for topic in ("orders", "ordert", "orderu"):
        assert isinstance(check(headers, send(topic=topic)).fields, SendHeaderV2)


@pytest.mark.parametrize(
    ("old", "new"), [(b"\0\0\0\x013", b"\0\0\0\x01x"), (b"1700000000000", b"17000000_0000")]
)
def test_a_value_that_is_not_a_number_is_refused(headers, old, new):
    raw = send()
    check(headers, raw)
    check(headers, RawFrame(raw.serialize_type, raw.header.replace(old, new), raw.body))


def test_properties_that_are_not_utf8_are_malformed_on_the_fast_path_too(headers):
    raw = send()
    check(headers, raw)
    with pytest.raises(MalformedHeader):
        read(headers, RawFrame(raw.serialize_type, raw.header.replace(b"WAIT", b"W\xffIT"), raw.body))


@given(st.data())
def test_a_header_with_one_changed_byte_is_read_as_in_full(data):
    headers, raw = KnownHeaders(), send()
    read(headers, raw)
    at = data.draw(st.integers(0, len(raw.header) - 1))
    value = data.draw(st.integers(0, 255))
    changed = RawFrame(BINARY, raw.header[:at] + bytes((value,)) + raw.header[at + 1 :], raw.body)
    try:
        read_in_full(changed)
    except MalformedHeader:
        with pytest.raises(MalformedHeader):
            read(headers, changed)
        return
    check(headers, changed)


def is_known(headers, raw):
    return headers.find(raw.header) is not None


@pytest.mark.parametrize("limits", [(3, 100), (100, 3), (3, 3), (1, 1)])
@given(lengths=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=40))
def test_a_header_is_known_the_second_time_after_any_other_headers(limits, lengths):
    """Any number of other headers may come first: the cache evicts, and its size is bounded."""
    headers = KnownHeaders(*limits)
    for length, is_other in lengths:
        raw = send(topic="ordert" if is_other else "orders", properties=f"KEYS\x01{'k' * length}\x02")
        check(headers, raw)
        assert is_known(headers, raw)
        check(headers, raw)
        assert len(headers) <= limits[1]


def test_headers_of_many_lengths_do_not_block_other_clients(headers):
    for length in range(SIZES_MAX + 8):
        check(headers, send(properties=f"{TEXT}KEYS\x01{'k' * (length + 1)}\x02"))
    later = send(producer_group="another")
    check(headers, later)
    assert is_known(headers, later)


def test_equal_fixed_bytes_match_only_with_equal_positions():
    """The header combines the fixed bytes of one header with the positions of another of the same size."""
    headers = KnownHeaders(1, 100)
    narrow, wide = send(queue_id=1, born=17_000_000_000_000), send(queue_id=12, born=1_700_000_000_000)
    assert len(narrow.header) == len(wide.header)
    check(headers, narrow)
    check(headers, send(topic="of another size"))
    check(headers, wide)
    queue, born = b"\0\x01e\0\0\0", b"\0\x01g\0\0\0"
    mixed = wide.header.replace(queue + b"\x02", queue + b"\x01").replace(born + b"\x0d", born + b"\x0e")
    assert mixed != wide.header
    raw = RawFrame(BINARY, mixed, b"")
    with pytest.raises(MalformedHeader):
        read_in_full(raw)
    with pytest.raises(MalformedHeader):
        read(headers, raw)


def test_two_caches_are_independent(headers):
    check(headers, send())
    assert is_known(headers, send(opaque=2))
    assert not is_known(KnownHeaders(), send(opaque=2))


def signed(opaque=1, signature="4kY/vkBiZD5L136VdPlcpooHxMM=", *, is_doubled=True, second=None, **values):
    """A send as RocketMQ's Java clients sign it: in binary headers every field stands there twice, and is read from its second place."""
    once = read_in_full(send(**values)).fields
    again = read_in_full(send(**(second or values))).fields
    pairs = [*once.items(), ("AccessKey", "alice")]
    pairs += [*again.items()] if is_doubled else []
    pairs.append(("Signature", signature))
    fields = b"".join(
        pack(">h", len(name)) + name.encode() + pack(">i", len(value.encode())) + value.encode()
        for name, value in pairs
    )
    header = pack(">hbhiiii", values.get("code", 310), 0, 479, opaque, 0, 0, len(fields)) + fields
    return RawFrame(BINARY, header, b"body")


@pytest.mark.parametrize("is_doubled", [False, True])
def test_a_signed_header_is_known_by_all_but_its_varying_values(headers, is_doubled):
    first = signed(is_doubled=is_doubled)
    read(headers, first)
    again = signed(
        7, "bPluxQx+XQV5WFA1Vb+jOtY476s=", queue_id=1, born=1_700_000_000_999, is_doubled=is_doubled
    )
    pattern, opaque, queue, born, text, signature = headers.find(again.header)
    assert (opaque, queue, born, text) == (7, b"1", b"1700000000999", TEXT.encode())
    assert signature == b"bPluxQx+XQV5WFA1Vb+jOtY476s="
    assert pattern.fields == read_in_full(first).fields
    command = read(headers, again)
    assert type(command.fields) is SendHeaderV2
    assert (command.fields.queue_id, command.fields.properties, command.opaque) == (1, TEXT, 7)
    other = signed(topic="ordert", is_doubled=is_doubled)
    assert headers.find(other.header) is None


@pytest.mark.parametrize(
    "second", [{"queue_id": 4}, {"born": 1_700_000_000_001}, {"properties": TEXT.replace("WAIT", "WAIS")}]
)
def test_a_header_whose_repeated_values_differ_is_read_in_full(headers, second):
    read(headers, signed())
    raw = signed(second=second)
    assert headers.find(raw.header) is None
    assert read(headers, raw).ext == read_in_full(raw).fields
    assert headers.find(signed().header) is not None


def test_signed_and_unsigned_headers_do_not_mix(headers):
    read(headers, signed())
    check(headers, send())
    assert len(headers) == 2
    assert headers.find(send(opaque=9).header)[5] == b""
    assert headers.find(signed(9).header)[5] != b""
    assert headers.find(send().header)[0].fields is None
