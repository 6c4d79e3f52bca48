"""A repeated name, in JSON or among headers, is refused with its place."""

from __future__ import annotations

import json

import pytest
from gateway_problem_check import check
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.problems import Problem
from gateway.requests.repeated_names import refuse_repeated_names

ORDERS = "/v1/topics/orders/messages"
JSON = {"content-type": "application/json"}
EVENT = '"specversion":"1.0","id":"1","source":"/s","type":"t"'

SENDS = [
    ('{"messages":[{"body":"a"}],"messages":[{"body":"b"}]}', "messages"),
    ('{"messages":[{"body":"a","body":"b"}]}', "messages[0].body"),
    ('{"messages":[{"body":"a"},{"body":"a","tag":"x","tag" :"y"}]}', "messages[1].tag"),
    ('{"messages":[{"body":"a","properties":{"x":"1","x":"2"}}]}', "messages[0].properties.x"),
    ('{"messages":[{"body":"a","tag":null,"tag":"y"}]}', "messages[0].tag"),
    ('{"messages":[{"body":"a","b\\u006fdy":"b"}]}', "messages[0].body"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "field"), SENDS)
async def test_a_name_that_stands_twice_in_a_send_is_named(client, system, body, field):
    check(await client.post(ORDERS, content=body.encode(), headers=JSON), 400, field)
    assert not system.stores["broker-a"].queues


@pytest.mark.anyio
@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "a: b, c: d", '\\":"'])
async def test_colons_and_braces_in_texts_are_no_names(client, text):
    message = {"body": text, "tag": "x:y", "properties": {"body": text, "tag": ":::"}}
    assert (await client.post(ORDERS, json={"messages": [message]})).status_code == 200


@pytest.mark.anyio
async def test_a_name_that_stands_twice_in_other_bodies_is_named(client):
    check(await client.put("/v1/topics/t", content=b'{"perm":"rw","perm":"r"}', headers=JSON), 400, "perm")
    body = b'{"offsets":[{"topic":"orders","broker":"a","queueId":0,"queueId":1,"offset":0}]}'
    check(await client.put("/v1/groups/g1/offsets", content=body, headers=JSON), 400, "offsets[0].queueId")
    batch = {"content-type": "application/cloudevents-batch+json"}
    check(await client.post(ORDERS, content=f'[{{{EVENT},"id":"2"}}]'.encode(), headers=batch), 400, "[0].id")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "field"), [("Mq-Tag", "Mq-Tag"), ("mq-property-x", "mq-property-x"), ("ce-id", "ce-id")]
)
async def test_a_header_that_stands_twice_is_named(client, system, name, field):
    answer = await client.post(ORDERS, content=b"x", headers=[(name, "a"), (name, "b")])
    check(answer, 400, field)
    assert not system.stores["broker-a"].queues


@pytest.mark.anyio
async def test_a_property_that_stands_twice_in_one_header_is_named(client):
    answer = await client.post(ORDERS, content=b"x", headers={"Mq-Properties": "a=1&b=2&a=3"})
    check(answer, 400, "Mq-Properties.a")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES)
def test_no_value_with_each_name_once_is_refused(value):
    refuse_repeated_names(json.dumps(value).encode())


@given(value=VALUES, name=st.text(min_size=1))
def test_a_name_written_twice_is_always_found(value, name):
    pair = f"{json.dumps(name)}:{json.dumps(value)}"
    with pytest.raises(Problem) as refusal:
        refuse_repeated_names(f'[{{"z":[{{{pair},{pair}}}]}}]'.encode())
    assert refusal.value.field == f"[0].z[0].{name}"
