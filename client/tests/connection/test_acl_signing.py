import base64
import hashlib
import hmac
import json

import pytest

from gantry_access.signatures.remoting import claimed_user, is_signed
from gantry_access.signatures.signing_key import SigningKey
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.nameserver import RouteHeader
from gantrymq import Message, MessageQueue
from gantrymq.connection.acl import Signer, signature
from gantrymq.producer.batching.batch_send import BatchSend
from gantrymq.producer.sending.preparing import Prepared
from gantrymq.producer.sending.send import Send, Target


def test_the_signature_matches_rfc_2202():
    said = signature(b"Jefe", b"what do ya want for nothing?")
    assert base64.b64decode(said).hex() == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"


def test_values_are_signed_in_the_order_of_their_names_then_the_body():
    fields = Signer("RocketMQ", "12345678")({"topic": "T", "b": "2", "a": "1", "Z": "upper"}, b"body")
    # upper case sorts before lower case: AccessKey, Z, a, b, topic
    content = b"RocketMQ" + b"upper" + b"1" + b"2" + b"T" + b"body"
    expected = base64.b64encode(hmac.new(b"12345678", content, hashlib.sha1).digest()).decode()
    assert fields == {
        "topic": "T", "b": "2", "a": "1", "Z": "upper", "AccessKey": "RocketMQ", "Signature": expected,
    }  # fmt: skip


def test_a_security_token_is_signed_too_and_typed_headers_are_read():
    fields = Signer("ak", "sk", "token")(RouteHeader(topic="T"), b"")
    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == signature(b"sk", b"aktokenT")


def test_a_request_without_fields_is_signed():
    assert Signer("ak", "sk")(None, b"x")["Signature"] == signature(b"sk", b"akx")


WORKED = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
    "i": "KEYS\x01k1\x02TAGS\x01TagA\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
"""The fields of a send as a Java client of 5.x signs them."""


def test_signatures_equal_those_of_rocketmq_clients():
    assert Signer("rocketmq", "12345678")(WORKED, b"hello")["Signature"] == "EAyRH1kB/I5GGKgrkbaAERqli7w="
    with_token = Signer("rocketmq", "12345678", "tok")(WORKED, b"hello")
    assert with_token["Signature"] == "KQxIGHtrPoE1HduAueOJyHtOt4w="
    assert Signer("rocketmq", "12345678")(None, b"")["Signature"] == "wmnVRiuXwvgUxJ6oySLyc1qu7Z4="


class Owner:
    """The producer of a send."""

    tries = 1
    signer = Signer("rocketmq", "12345678")


def sends():
    message = Message("TopicTest", b"hello", tag="TagA", keys=["k1"])
    prepared = Prepared("KEYS\x01k1\x02TAGS\x01TagA\x02", b"hello", 0)
    target = Target(
        MessageQueue("TopicTest", "broker-a", 0), "127.0.0.1:1", "PG", "TopicTest", lambda _: None
    )
    common = (Owner(), message, prepared, None, 0.0, 1_700_000_000_000, target)
    keyed = BatchSend(*common)
    keyed.per_item = True
    return {"one": Send(*common), "batch": BatchSend(*common), "batch with keys": keyed}


@pytest.mark.parametrize("oneway", [False, True])
@pytest.mark.parametrize("kind", ["one", "batch", "batch with keys"])
def test_the_library_that_servers_use_accepts_the_frames_of_every_kind_of_send(kind, oneway):
    frame = sends()[kind].frame(7, oneway=oneway)
    [raw] = FrameDecoder().receive(frame)
    fields = json.loads(raw.header)["extFields"]
    key = SigningKey("12345678")
    assert claimed_user(fields) == "rocketmq"
    assert is_signed(fields, raw.body, [key])
    assert not is_signed({**fields, "b": "Other"}, raw.body, [key])
