"""Transaction ids contain the broker and the unique key in characters that are legal in a URL path."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies.json_body import decode_body
from gantry_wire.private_requests.transactions import (
    PendingCheck,
    TransactionView,
    split_transaction_id,
    transaction_id,
)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


def test_an_id_is_readable_where_names_are_plain():
    assert transaction_id("broker-a", "7F00000100") == "broker-a.7F00000100"


@given(names, names)
def test_every_broker_and_key_round_trip_through_an_id(broker, key):
    made = transaction_id(broker, key)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", made)
    assert split_transaction_id(made) == (broker, key)


@pytest.mark.parametrize("text", ["", "a", "a.", ".b", "a.b.c", "a.~zz", "a.~6", "a.~41", "a.~ff", "a b.c"])
def test_an_invalid_id_gives_none(text):
    assert split_transaction_id(text) is None


def test_bodies_use_camel_case_and_base64():
    check = PendingCheck(key="K", broker="b", attempt=2, record=b"\x00\xff")
    assert b'"record":"AP8="' in msgspec.json.encode(check)
    assert decode_body(msgspec.json.encode(check), PendingCheck) == check
    view = TransactionView(key="K", state="open", topic="t", producer_group="g", begun_ms=1)
    assert b'"producerGroup":"g"' in msgspec.json.encode(view)
