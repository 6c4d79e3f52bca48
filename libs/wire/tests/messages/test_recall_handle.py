import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.recall_handle import RecallHandle, parse_handle

NAMES = st.text("abcXYZ019_-%|", min_size=1, max_size=40)


def test_a_handle_equals_rocketmqs():
    handle = RecallHandle("orders", "broker-a", 1_700_000_060_000, "7F000001")
    text = base64.urlsafe_b64decode(handle.text()).decode()
    assert text == "v1 orders broker-a 1700000060000 7F000001"
    assert parse_handle(handle.text()) == handle
    assert parse_handle(handle.text().rstrip("=")) == handle


@given(NAMES, NAMES, st.integers(0, 10**17), NAMES)
def test_every_handle_is_read_back(topic, broker, deliver_ms, unique_key):
    handle = RecallHandle(topic, broker, deliver_ms, unique_key)
    assert parse_handle(handle.text()) == handle


def test_a_time_that_is_not_a_number_is_before_all_others():
    text = base64.urlsafe_b64encode(b"v1 t b soon u").decode()
    assert parse_handle(text).deliver_ms == -1


@given(
    st.one_of(
        st.text(max_size=60), st.binary(max_size=60).map(lambda b: base64.urlsafe_b64encode(b).decode())
    )
)
def test_anything_else_is_refused_with_604_or_names_a_message(text):
    with contextlib.suppress(RefusedRequest):
        handle = parse_handle(text)
        assert all(handle[:2])
        assert handle.unique_key


@pytest.mark.parametrize("text", [b"v2 t b 1 u", b"v1 t b 1", b"v1  b 1 u", b"", b"\xff\xfe"])
def test_known_bad_handles_are_refused(text):
    with pytest.raises(RefusedRequest) as refusal:
        parse_handle(base64.urlsafe_b64encode(text).decode())
    assert refusal.value.code == ResponseCode.ILLEGAL_OPERATION
