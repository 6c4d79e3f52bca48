"""A frame from a call pattern equals the encoded frame, with any names in it."""

from hypothesis import example, given
from hypothesis import strategies as st

from gantry_link.calling.call_pattern import CallPattern
from gantry_wire.frames.encode import encode_request
from gantry_wire.private_requests.leases import ReceiveHeader

LIKE_OPAQUES = ("1000000000", "2111111111", "2000000001", "%d", "%", '"opaque":1')
names = st.one_of(
    st.text(max_size=40), st.lists(st.sampled_from(LIKE_OPAQUES), min_size=1, max_size=4).map("".join)
)


@given(
    st.integers(0, 2**31 - 1), names, names, st.one_of(st.none(), names),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=30)), min_size=1),
)  # fmt: skip
@example(1_000_000_000, "2111111111", "1000000000", None, [(2_111_111_111, b"1000000000")])
def test_a_frame_from_a_pattern_equals_the_encoded_frame(code, group, topic, expression, calls):
    header = ReceiveHeader(group=group, topic=topic, max_messages=32, invisible_ms=1, expression=expression)
    pattern = CallPattern(code, header)
    for opaque, body in calls:
        assert pattern.frame(opaque, body) == encode_request(code, opaque, header, body)
