"""The signature of remoting requests: RocketMQ's own values, the fields of both generations, and every change refused."""

import pytest

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.remoting import claimed_user, is_signed, sign, signed_content
from gantry_access.signatures.signing_key import SigningKey

KEY = SigningKey("12345678")
SEND = {
    "a": "PG", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
    "i": "KEYS\x01k1\x02TAGS\x01TagA\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a", "AccessKey": "rocketmq",
}  # fmt: skip
GOLDEN = [
    (SEND, b"hello", "EAyRH1kB/I5GGKgrkbaAERqli7w="),
    (SEND | {"SecurityToken": "tok"}, b"hello", "KQxIGHtrPoE1HduAueOJyHtOt4w="),
    ({"AccessKey": "rocketmq"}, b"", "wmnVRiuXwvgUxJ6oySLyc1qu7Z4="),
]


@pytest.mark.parametrize(("fields", "body", "signature"), GOLDEN)
def test_signatures_of_rocketmq_are_accepted(fields, body, signature):
    assert is_signed(fields | {"Signature": signature}, body, [KEY])


@pytest.mark.parametrize(("fields", "body", "signature"), GOLDEN)
def test_our_own_requests_are_signed_as_rocketmq_signs(fields, body, signature):
    own = {name: value for name, value in fields.items() if name not in ("AccessKey", "SecurityToken")}
    signed = sign(own, body, "rocketmq", KEY, fields.get("SecurityToken"))
    assert signed == fields | {"Signature": signature}


def test_the_signed_content_is_the_values_in_the_order_of_their_names():
    content = signed_content(SEND | {"Signature": "x"}, b"hello")
    assert content == (
        b"rocketmqPGTopicTestTBW10240017000000000000KEYS\x01k1\x02TAGS\x01TagA\x020falsefalsebroker-ahello"
    )


def test_capitals_sort_before_the_underscore_and_this_before_small_letters():
    assert signed_content({"a": "3", "_a": "2", "Z": "1"}, b"") == b"123"


def test_signing_again_replaces_the_signature():
    once = sign(SEND, b"hello", "rocketmq", KEY)
    assert sign(once, b"hello", "rocketmq", KEY) == once


@pytest.mark.parametrize("name", sorted(SEND))
def test_a_changed_field_is_refused(name):
    signed = sign(SEND, b"hello", "rocketmq", KEY)
    assert not is_signed(signed | {name: signed[name] + "x"}, b"hello", [KEY])


def test_a_changed_body_an_added_field_and_another_secret_are_refused():
    signed = sign(SEND, b"hello", "rocketmq", KEY)
    assert not is_signed(signed, b"hello!", [KEY])
    assert not is_signed(signed | {"gantryProbe": "true"}, b"hello", [KEY])
    assert not is_signed(signed, b"hello", [SigningKey("12345679")])
    assert is_signed(signed, b"hello", [SigningKey("12345679"), KEY])


@pytest.mark.parametrize("is_signed_field", [True, False])
@pytest.mark.parametrize("value", ["true", "false"])
def test_the_mark_of_a_query_by_unique_key_may_be_signed_or_not(is_signed_field, value):
    query = {"topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
    mark = {"_UNIQUE_KEY_QUERY": value}
    signed = sign(query | mark, b"", "u", KEY) if is_signed_field else sign(query, b"", "u", KEY) | mark
    assert is_signed(signed, b"", [KEY])
    assert not is_signed(signed | {"key": "other"}, b"", [KEY])


@pytest.mark.parametrize(
    "signature",
    ["", "EAyRH1kB", "EAyRH1kB/I5GGKgrkbaAERqli7w", "EAyRH1kB/I5GGKgrkbaAERqli7x=", "ä", "\ud800"],
)
def test_a_text_that_is_no_signature_is_refused(signature):
    assert not is_signed(SEND | {"Signature": signature}, b"hello", [KEY])
    assert not is_signed(SEND, b"hello", [KEY])


def test_half_a_surrogate_pair_is_signed_as_java_does():
    assert signed_content({"a": "x\ud800y"}, b"") == b"x?y"


@pytest.mark.parametrize("fields", [{}, {"AccessKey": ""}, {"AccessKey": "  "}])
def test_a_request_without_a_user_is_refused_with_the_text_of_rocketmq(fields):
    with pytest.raises(AuthenticationRefused, match=r"^username cannot be null\.$"):
        claimed_user(fields)


def test_the_claimed_user_is_the_access_key():
    assert claimed_user(SEND) == "rocketmq"
