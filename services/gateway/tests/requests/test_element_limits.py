"""A body of millions of tiny elements is refused before it is decoded, after a scan up to the limit."""

from __future__ import annotations

import contextlib
import json

import msgspec
import pytest
from gateway_problem_check import check
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.problems import Problem
from gateway.requests import element_limits
from gateway.requests.element_limits import EVENT_LIMITS, LIMITS, VALUES_MAX, refuse_too_many_elements
from gateway.requests.json_bodies import read_json

SIZE = 15_000_000
MANY = 1_000_000


def filled(before: str, one: str, after: str) -> bytes:
    return before.encode() + one.encode() * (SIZE // len(one)) + after.encode()


def named(before: str, after: str) -> bytes:
    return (before + ",".join(f'"{n:x}":"1"' for n in range(1_000_000)) + after).encode()


KINDS = {
    "messages of objects": (lambda: filled('{"messages":[', "{},", "{}]}"), LIMITS, "messages", "<= 1000"),
    "messages of numbers": (lambda: filled('{"messages":[', "1,", "1]}"), LIMITS, "messages", "<= 1000"),
    "keys": (lambda: filled('{"messages":[{"keys":[', '"a",', '"a"]}]}'), LIMITS, "messages[0].keys", "<= 64"),
    "keys of the second": (
        lambda: filled('{"messages":[{"body":"[,{"},{"keys":[', '"a",', '"a"]}]}'), LIMITS, "messages[1].keys", "<= 64",
    ),
    "properties": (lambda: named('{"messages":[{"properties":{', "}}]}"), LIMITS, "messages[0].properties", None),
    "one property": (
        lambda: filled('{"messages":[{"properties":{', '"a":"",', '"a":""}}]}'), LIMITS, "messages[0].properties", None,
    ),
    "a transaction's keys": (lambda: filled('{"message":{"keys":[', '"a",', '"a"]}}'), LIMITS, "message.keys", "<= 64"),
    "acks": (lambda: filled('{"acks":[', "{},", "{}]}"), LIMITS, "acks", "1…1024"),
    "nacks": (lambda: filled('{"nacks":[', "{},", "{}]}"), LIMITS, "acks", "1…1024"),
    "extends": (lambda: filled('{"extends":[', "{},", "{}]}"), LIMITS, "extends", "<= 1024"),
    "offsets": (lambda: filled('{"offsets":[', "{},", "{}]}"), LIMITS, "offsets", "<= 1024"),
    "events": (lambda: filled("[", "{},", "{}]"), EVENT_LIMITS, "body", "<= 1000"),
    "an event's data": (lambda: filled('[{"data":[', "1,", "1]}]"), EVENT_LIMITS, "body", "100000 values"),
    "unknown names": (lambda: named("{", "}"), LIMITS, "body", "100000 values"),
    "lists beside lists": (lambda: filled("[", "[],", "[]]"), LIMITS, "body", "100000 values"),
    "an unknown list": (lambda: filled('{"x":[', "1,", "1]}"), LIMITS, "body", "100000 values"),
    "lists behind a long text": (
        lambda: b'["' + b"x" * (SIZE // 2) + b'",' + b"[]," * (SIZE // 6) + b"[]]", LIMITS, "body", "100000 values",
    ),
    "commas": (lambda: b"," * SIZE, LIMITS, "body", "100000 values"),
}  # fmt: skip


@pytest.fixture
def read(monkeypatch):
    """Count the tokens of a scan."""
    count = [0]
    real = element_limits.tokens

    def counted(body):
        for token in real(body):
            count[0] += 1
            yield token

    monkeypatch.setattr(element_limits, "tokens", counted)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_elements_are_refused_after_a_short_scan_without_decoding(kind, read):
    make, limits, field, limit = KINDS[kind]
    body = make()

    class Decoder:
        def decode(self, _body):
            pytest.fail("it was decoded")

    with pytest.raises(Problem) as raised:
        read_json(Decoder(), body, limits)
    assert (raised.value.status, raised.value.field) == (400, field)
    assert limit in {None, raised.value.limit}
    assert read[0] <= 4 * VALUES_MAX


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/topics/orders/messages", "messages of objects"),
        ("POST", "/v1/topics/orders/groups/g1/messages:ack", "acks"),
        ("POST", "/v1/topics/orders/groups/g1/messages:extend", "extends"),
        ("PUT", "/v1/groups/g1/offsets", "offsets"),
        ("PUT", "/v1/definitions", "unknown names"),
        ("POST", "/v1/topics/orders/transactions", "a transaction's keys"),
        ("POST", "/v1/schedules:bulkCancel", "an unknown list"),
        ("POST", "/v1/topics/orders/messages", "events"),
    ],
)
async def test_every_call_refuses_them(client, method, path, kind, read):
    make, _limits, field, _limit = KINDS[kind]
    body = make()
    media_type = "application/cloudevents-batch+json" if kind == "events" else "application/json"
    answer = await client.request(method, path, content=body, headers={"content-type": media_type})
    check(answer, 400, field)
    assert read[0] <= 4 * VALUES_MAX


def test_the_most_that_is_allowed_passes():
    message = {"body": ",[{" * 1000, "keys": ["k"] * 64, "properties": {f"p{n}": "v" for n in range(20)}}
    refuse_too_many_elements(json.dumps({"messages": [message] * 1000}).encode())
    refuse_too_many_elements(json.dumps({"acks": [{"receiptHandle": "h" * 100}] * 1024}).encode())
    refuse_too_many_elements(json.dumps([{"data": {"keys": list(range(20_000))}}] * 2).encode(), EVENT_LIMITS)


@pytest.mark.parametrize("text", ['"' * 2, "," * MANY, '\\"' * MANY, "\\\\" * MANY, "[{" * MANY])
def test_separators_in_texts_do_not_count(text, read):
    refuse_too_many_elements(b'{"messages":[{"body":"' + text.replace('""', "").encode() + b'"}]}')
    assert read[0] < 20


@pytest.mark.parametrize("text", [b'"', b'\\"', b"\\", b'",'])
def test_a_body_that_is_not_json_is_scanned_at_most_once(text, read):
    with contextlib.suppress(Problem):
        refuse_too_many_elements(b"," * element_limits.FREE_VALUES + b'{"' + text * 500_000)
    assert read[0] <= 4 * VALUES_MAX


JSONS = st.recursive(
    st.text() | st.integers() | st.none(),
    lambda held: st.lists(held, max_size=6) | st.dictionaries(st.text(max_size=5), held, max_size=6),
    max_leaves=40,
)


@given(JSONS, st.integers(1, 6))
def test_a_limit_holds_for_just_the_lists_that_are_over_it(value, limit):
    body = json.dumps({"a": value}, ensure_ascii=False).encode()
    over = isinstance(value, list | dict) and len(value) > limit
    with pytest.raises(Problem) if over else contextlib.nullcontext():
        element_limits._scan(body, {"a": limit})


@pytest.mark.parametrize("text", [b"[" * SIZE, b'{"a":' * 1_000_000])
def test_deep_nesting_is_left_to_the_decoder(text, read):
    refuse_too_many_elements(text)
    assert read[0] < 3 * element_limits.DEPTH_MAX
    with pytest.raises(Problem) as raised:
        read_json(msgspec.json.Decoder(), text)
    assert raised.value.limit == "nesting depth"
