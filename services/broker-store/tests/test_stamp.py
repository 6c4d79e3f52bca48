"""What the broker adds to properties, and what it refuses to store in them."""

import pytest

from broker_store.stamp import Stamp
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.properties import parse_properties


def make_stamp():
    return Stamp("DefaultRegion", "DefaultCluster", trace_on=True, next_unique_key=lambda: "0A" * 16)


def test_the_clients_bytes_stay_in_front():
    raw, key = make_stamp().finish("A\x011\x02UNIQ_KEY\x01k\x02", {"A": "1", "UNIQ_KEY": "k"})
    assert raw.startswith(b"A\x011\x02UNIQ_KEY\x01k\x02MSG_REGION\x01")
    assert key == "k"


@pytest.mark.parametrize("text", ["", "A\x011", "A\x011\x02"])
def test_a_missing_unique_key_is_made_and_the_separator_mended(text):
    raw, key = make_stamp().finish(text, parse_properties(text))
    assert parse_properties(raw)["UNIQ_KEY"] == key == "0A" * 16
    assert raw.endswith(b"\x02")


def test_what_the_client_says_itself_is_not_said_again():
    text = "CLUSTER\x01mine\x02TRACE_ON\x01false\x02"
    raw, _ = make_stamp().finish(text, parse_properties(text))
    assert raw.count(b"CLUSTER\x01") == raw.count(b"TRACE_ON\x01") == 1
    assert parse_properties(raw)["CLUSTER"] == "mine"


def test_properties_that_would_look_like_a_torn_write_are_refused():
    text = "A\x01" + "\0" * 512 + "\x02"
    with pytest.raises(RefusedRequest) as refused:
        make_stamp().finish(text, {"A": "\0" * 512})
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    fine = "A\x01" + "\0" * 511 + "\x02"
    assert make_stamp().finish(fine, {"A": "\0" * 511})[0].startswith(fine.encode())
