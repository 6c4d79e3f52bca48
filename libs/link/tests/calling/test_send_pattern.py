"""A frame from a send pattern equals the encoded frame, with any names and values in it."""

from hypothesis import example, given
from hypothesis import strategies as st

from gantry_link.calling.send_pattern import SendPattern
from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import SendHeaderV2

NUMBERS = ["1000000000000", "2111111111111", "1000000000001", "1000000000", "2000000001", "0", "9"]
NAMES = st.one_of(
    st.text(
        st.characters(codec="ascii", categories=["L", "N"], include_characters="%|-_"),
        min_size=1,
        max_size=127,
    ),
    st.lists(st.sampled_from([*NUMBERS, "a", "b", "-"]), min_size=1, max_size=6).map("".join),
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from([*NUMBERS, "\x01", "\x02", "\x00text\x00", '"', "\\", "é", "𝄞", "a", "b"])).map(
        "".join
    ),
)


def header_of(topic: str, group: str, queue_id: int, flag: int) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group=group, topic=topic, default_topic="TBW102", default_topic_queue_nums=8, queue_id=queue_id,
        sys_flag=flag, born_timestamp=0, flag=0, properties="", reconsume_times=0, unit_mode=False, batch=False,
    )  # fmt: skip


@given(
    NAMES, NAMES, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), TEXTS, st.binary(max_size=30)), min_size=1),
)  # fmt: skip
@example("t-1000000000001", "g", 0, 0, [(1, 5, "x", b"y")])
@example(
    "2000000001",
    "1000000000001",
    1_000_000_000,
    2_000_000_001,
    [(2_000_000_001, 1_000_000_000_001, "b", b"")],
)
def test_a_frame_from_a_pattern_equals_the_encoded_frame(topic, group, queue_id, flag, messages):
    pattern = SendPattern(header_of(topic, group, queue_id, flag))
    for opaque, born_ms, text, body in messages:
        header = header_of(topic, group, queue_id, flag)
        header.born_timestamp, header.properties = born_ms, text
        plain = encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header, body)
        assert pattern.frame(born_ms, text, body, opaque) == plain
        assert b"".join(pattern.parts(born_ms, text, body, opaque)) == plain
