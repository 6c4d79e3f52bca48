"""Binary sends that are like an earlier one are read by comparison; the result is always that of reading in full."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire import known_headers
from gantry_wire.binary_header import decode_binary_header
from gantry_wire.errors import MalformedHeader
from gantry_wire.frame import BINARY, FrameDecoder, RawFrame, decode_command, encode_request
from gantry_wire.headers import SendHeaderV2

TEXT = "UNIQ_KEY\x017F0000010B2C63947C6B8D4F00010002\x02WAIT\x01true\x02"


@pytest.fixture(autouse=True)
def headers():
    """The headers of this process, empty before and after."""
    one = known_headers._headers
    one.__init__()
    yield one
    one.__init__()


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


def check(raw):
    command, full = decode_command(raw), read_in_full(raw)
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


def test_a_second_one_of_the_same_client_is_known():
    check(send())
    again = check(send(opaque=2, queue_id=1, born=1_700_000_000_999))
    assert isinstance(again.fields, SendHeaderV2)
    assert (again.opaque, again.fields.queue_id, again.fields.born_timestamp) == (2, 1, 1_700_000_000_999)
    first = check(send(opaque=-5))
    assert first.opaque == -5
    assert again.fields.queue_id == 1, "two commands share nothing that changes"


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
def test_whatever_differs_is_read_as_it_is(other):
    check(send())
    for _ in range(3):
        check(send(**other))
    check(send())


def test_several_topics_of_one_size_are_all_known():
    for topic in ("orders", "ordert", "orderu"):
        check(send(topic=topic))
    for topic in ("orders", "ordert", "orderu"):
        assert isinstance(check(send(topic=topic)).fields, SendHeaderV2)


@pytest.mark.parametrize(
    ("old", "new"), [(b"\0\0\0\x013", b"\0\0\0\x01x"), (b"1700000000000", b"17000000_0000")]
)
def test_a_number_that_is_none_is_not_taken_for_one(old, new):
    raw = send()
    check(raw)
    check(RawFrame(raw.serialize_type, raw.header.replace(old, new), raw.body))


def test_properties_that_are_no_text_are_malformed_as_ever():
    raw = send()
    check(raw)
    with pytest.raises(MalformedHeader):
        decode_command(RawFrame(raw.serialize_type, raw.header.replace(b"WAIT", b"W\xffIT"), raw.body))


@given(st.data())
def test_one_changed_byte_is_read_as_in_full(data):
    raw = send()
    decode_command(raw)
    at = data.draw(st.integers(0, len(raw.header) - 1))
    value = data.draw(st.integers(0, 255))
    changed = RawFrame(BINARY, raw.header[:at] + bytes((value,)) + raw.header[at + 1 :], raw.body)
    try:
        read_in_full(changed)
    except MalformedHeader:
        with pytest.raises(MalformedHeader):
            decode_command(changed)
        return
    check(changed)


def is_known(raw):
    return known_headers.find_known(raw.header) is not None


@pytest.mark.parametrize("limit", ["PATTERNS_MAX", "SIZES_MAX"])
@given(lengths=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=40))
def test_whatever_came_before_a_header_is_known_at_its_second_time(limit, lengths):
    """However many others there were: the oldest make room, and what is kept is bounded."""
    headers = known_headers._headers
    headers.__init__()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_headers, limit, 3)
        for length, is_other in lengths:
            raw = send(topic="ordert" if is_other else "orders", properties=f"KEYS\x01{'k' * length}\x02")
            check(raw)
            assert is_known(raw)
            check(raw)
            patterns = [len(patterns) for _, patterns in headers._shapes.values()]
            assert headers._count == sum(patterns) <= known_headers.PATTERNS_MAX
            assert len(patterns) <= known_headers.SIZES_MAX


def test_clients_that_write_many_lengths_do_not_keep_others_from_being_known(headers):
    for length in range(known_headers.SIZES_MAX + 8):
        check(send(properties=f"{TEXT}KEYS\x01{'k' * (length + 1)}\x02"))
    later = send(producer_group="another")
    check(later)
    assert is_known(later)
    assert len(headers._shapes) == known_headers.SIZES_MAX
