"""All forms of RocketMQ's JSON dialect are read; bodies are written as fastjson does."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.fastjson import ObjectKey, dumps, loads
from gantry_wire.errors import MalformedBody

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.booleans())
def test_content_round_trips(content, standard):
    assert loads(dumps(content, standard=standard)) == content


@given(VALUES)
def test_standard_json_is_ascii_sorted_and_read_by_any_parser(content):
    text = dumps(content, standard=True)
    assert text.isascii()
    assert json.loads(text) == content


@given(VALUES)
def test_the_tolerant_reader_agrees_with_the_exact_one(content):
    text = dumps(content).decode()
    assert loads(f"{{1:{text},}}".encode()) == {"1": content}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{0:"10.0.0.1:10911",1:"x"}', {"0": "10.0.0.1:10911", "1": "x"}),
        ("{a:1,b_2 : 'x y',}", {"a": 1, "b_2": "x y"}),
        ("[1,2.5,-3e2,true,false,null,]\n", [1, 2.5, -300.0, True, False, None]),
        ('{{"a":1}:2}', {'{"a":1}': 2}),
        ('{{\n\t"a" : 1\n}:2}', {'{"a":1}': 2}),
        ("{'it\\'s':'\\n\\t\\/\\u0041\\ud83d\\ude80'}", {"it's": "\n\t/A\U0001f680"}),
        ('{-5:{}, "k":[ ]}', {"-5": {}, "k": []}),
        ('{1:"a\nb"}', {"1": "a\nb"}),
    ],
)
def test_spellings_of_the_dialect_are_read(text, content):
    assert loads(text.encode()) == content


def test_an_object_key_is_written_back_unchanged():
    text = b'{{"brokerName":"b","queueId":0,"topic":"T"}:{"minOffset":0}}'
    content = loads(text)
    assert all(type(key) is ObjectKey for key in content)
    assert dumps(content) == text


@pytest.mark.parametrize(
    ("content", "fast", "standard"),
    [
        ({0: "a"}, '{0:"a"}', '{"0":"a"}'),
        ({"b": None, "a": 1}, '{"a":1}', '{"a":1}'),
        ({"b": 2, "a": 1}, '{"b":2,"a":1}', '{"a":1,"b":2}'),
        ({"ä": "\U0001f680"}, '{"ä":"\U0001f680"}', '{"\\u00E4":"\\uD83D\\uDE80"}'),
        ([], "[]", "[]"),
        ({}, "{}", "{}"),
        ((1, frozenset([2])), "[1,[2]]", "[1,[2]]"),
        (
            {MessageQueue(broker_name="b", queue_id=0, topic="T"): 1},
            '{{"brokerName":"b","queueId":0,"topic":"T"}:1}',
            '{{"brokerName":"b","queueId":0,"topic":"T"}:1}',
        ),
    ],
)
def test_content_is_written_as_fastjson_or_as_standard_json(content, fast, standard):
    assert dumps(content).decode() == fast
    assert dumps(content, standard=True).decode() == standard


@pytest.mark.parametrize("key", [True, 1.5, None, (1,)])
def test_an_impossible_key_raises_type_error(key):
    with pytest.raises(TypeError):
        dumps({key: 1})


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[", b"{1", b"{1:", b"{1:2", b"{1 2}", b"{1:2 3:4}", b"[1 2]", b"{,}", b"[,]", b"{1:nul}", b"{1:-}",
        b"{1:'x}", b'{1:"x}', b"{1:2}}", b"{1:'\\ud800'}", b"\xff", b"{1:" + b"[" * 64, b"[" * 100_000, b"{{{{",
        b"{1:" + b"9" * 5000 + b"}", b"{:1}", b"'",
    ],
)  # fmt: skip
def test_invalid_json_is_refused(text):
    with pytest.raises(MalformedBody):
        loads(text)


@given(st.text(st.sampled_from("{}[]:,'\"\\a1-.eu \n"), max_size=30))
def test_any_text_gives_content_or_the_documented_error(text):
    with suppress(MalformedBody):
        content = loads(text.encode())
        assert loads(dumps(content)) == loads(dumps(content, standard=True))
