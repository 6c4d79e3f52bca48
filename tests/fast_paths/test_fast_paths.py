"""Fast paths store the same bytes and give the same answers as slow ones: from HTTP bytes to log bytes, for everything legal and more."""

import asyncio
import base64
import json

import legal_input
from hypothesis import given, settings
from hypothesis import strategies as st
from whole_way import LINES, WholeWay

EXAMPLES = 3
text = st.one_of(legal_input.texts, st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
"""All of Unicode, also what the gateway refuses."""
bodies = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
    st.sampled_from(["", "x" * 59_000, "x" * 70_000]),
)


@st.composite
def messages(draw):
    """One message of the JSON API."""
    message = {"body": draw(bodies)}
    if draw(st.booleans()):
        message = {"bodyBase64": base64.b64encode(draw(legal_input.bodies)).decode()}
    others = {
        "tag": text,
        "keys": st.lists(text, max_size=3),
        "properties": st.dictionaries(text, text, max_size=3),
        "shardingKey": text,
        "queueId": st.integers(-1, 3),
        "idempotencyKey": st.one_of(st.sampled_from("kl"), text),
        "broker": st.sampled_from(["broker-a", "broker-b"]),
    }
    for name in draw(st.lists(st.sampled_from(sorted(others)), max_size=3, unique=True)):
        message[name] = draw(others[name])
    return message


@st.composite
def json_bodies(draw):
    """A request in our JSON: one message mostly, several, or something that is none."""
    many = draw(st.lists(messages(), min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 1, 2, 3]))))
    content = json.dumps({"messages": many}, ensure_ascii=draw(st.booleans())).encode()
    return draw(st.one_of(*[st.just(content)] * 9, st.binary(max_size=30), st.just(content[:-1])))


RAW_HEADERS = ("Mq-Tag", "Mq-Keys", "Mq-Property-Own", "Mq-Sharding-Key", "Mq-Queue-Id")
values = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=12).map(str.strip)


@st.composite
def requests(draw, topics):
    """Requests of a client with one head, whose length alone varies."""
    is_json = draw(st.sampled_from([True, True, False]))
    headers = [f"host: {draw(st.sampled_from(['127.0.0.1:8080', 'localhost']))}"]
    headers.append(
        "content-type: "
        + (
            "application/json"
            if is_json
            else draw(st.sampled_from(["text/plain", "application/octet-stream"]))
        )
    )
    if not is_json:
        headers += [
            f"{name}: {draw(values)}"
            for name in draw(st.lists(st.sampled_from(RAW_HEADERS), max_size=2, unique=True))
        ]
    headers += draw(
        st.lists(
            st.sampled_from(["accept: */*", "accept-encoding: gzip", "connection: keep-alive", "x-own: 1"]),
            max_size=2,
            unique=True,
        )
    )
    length = draw(st.sampled_from(["content-length", "Content-Length"]))
    path = f"/v1/topics/{draw(st.sampled_from(topics)).replace('%', '%25').replace('|', '%7C')}/messages"
    rows = draw(
        st.lists(
            st.lists(json_bodies() if is_json else legal_input.bodies, min_size=1, max_size=LINES),
            min_size=1,
            max_size=3,
        )
    )
    place = draw(st.integers(0, len(headers)))

    def request(body):
        lines = [f"POST {path} HTTP/1.1", *headers[:place], f"{length}: {len(body)}", *headers[place:]]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    return [[request(body) for body in row] for row in rows]


@st.composite
def scripts(draw):
    """Topics, of which the last is not made, and requests into them, a list for each turn."""
    topics = draw(st.lists(legal_input.topic_names, min_size=2, max_size=3, unique=True))
    drawn = draw(st.lists(requests(topics), min_size=1, max_size=3))
    return topics[:-1], [row for one in drawn for row in one]


async def outcome(script, *, fast_paths):
    """Return every answer, and what lies in the log."""
    topics, rows = script
    way = WholeWay(topics, fast_paths=fast_paths)
    answers = []
    for row in rows:
        answers += await way.post_all(row)
    log, quick = way.log(), way.quick
    await way.close()
    return answers, log, quick


async def check(script):
    fast_answers, fast_log, quick = await outcome(script, fast_paths=True)
    slow_answers, slow_log, none = await outcome(script, fast_paths=False)
    assert fast_answers == slow_answers
    assert fast_log == slow_log
    assert none == 0
    return quick


@settings(max_examples=EXAMPLES, deadline=None)
@given(scripts())
def test_http_sends_lead_to_the_same_log_and_the_same_answers(script):
    asyncio.run(check(script))
