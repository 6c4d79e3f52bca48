"""Rows as messages: what a row becomes, what is retried and what is refused; and one run through Spark into a topic."""

import base64
import json
import threading
import urllib.parse
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pytest
from http_calls import call
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

from gantry_spark.bad_option import BadOption
from gantry_spark.sink import options as sink_options
from gantry_spark.sink import writers
from gantry_spark.sink.gateway import Gateway, SendRefused, encoded, request_of

ADDRESS = {"gateway": "http://127.0.0.1:1"}


def schema(*names):
    return StructType([StructField(name, StringType()) for name in names])


def requests_of(rows, **given):
    options = sink_options.parse(
        {**ADDRESS, **given},
        schema("body", "topic", "a", "b") if "idempotencyColumns" in given else schema("body", "topic"),
    )
    requests = writers._requests(iter([pa.RecordBatch.from_pylist(rows)]), options)
    return [(topic, [json.loads(message) for message in messages]) for topic, messages in requests]


def test_a_row_becomes_a_message_with_all_its_fields():
    row = {
        "topic": "orders", "body": b"\x00\xff", "tags": "a", "keys": "k-1 k-2", "properties": {"region": "north"},
        "shardingKey": "s", "queueId": 2, "brokerName": "broker-a", "idempotencyKey": "i", "deliverAt": datetime.fromtimestamp(5, UTC),
    }  # fmt: skip
    topic, message = writers._message(row, sink_options.parse({**ADDRESS}, schema("body", "topic")))
    assert topic == "orders"
    assert message == {
        "bodyBase64": "AP8=", "tag": "a", "keys": ["k-1", "k-2"], "properties": {"region": "north"}, "shardingKey": "s",
        "queueId": 2, "broker": "broker-a", "idempotencyKey": "i", "deliverAt": 5000,
    }  # fmt: skip


def test_requests_hold_messages_of_one_topic_and_a_bounded_number():
    rows = [{"topic": topic, "body": str(n)} for n, topic in enumerate("aaabba")]
    assert [(topic, len(messages)) for topic, messages in requests_of(rows, batchMessages="2")] == [
        ("a", 2),
        ("a", 1),
        ("b", 2),
        ("a", 1),
    ]


def test_equal_values_give_equal_keys_and_different_ones_do_not():
    row = {"a": "x", "b": datetime(2026, 1, 1, tzinfo=UTC)}
    both = writers.idempotency_key(row, ("A", "b"))
    assert both == writers.idempotency_key(dict(reversed(row.items())), ("A", "b"))
    assert both != writers.idempotency_key({**row, "a": "y"}, ("A", "b"))
    assert writers.idempotency_key(row, ("a",)) == "x"
    assert len(writers.idempotency_key({"a": "x" * 101}, ("a",))) == 64
    assert writers.idempotency_key(row, ()) is None


@pytest.mark.parametrize(
    ("given", "names", "words"),
    [
        ({}, ("body",), "give the option topic, or a column"),
        ({"topic": "t"}, ("value",), "a message has no value.*to_json"),
        ({"topic": "t"}, ("topic",), "needs the column body"),
        ({"topic": "t", "idempotencyColumns": "id"}, ("body",), "names id, which the rows do not have"),
        ({"topic": "t", "gateway": "127.0.0.1"}, ("body",), "the address of the HTTP API"),
        ({"topic": "t", "colour": "1"}, ("body",), "no option colour; it has gateway"),
        ({"topic": "t", "batchMessages": "2000"}, ("body",), "batchMessages is a number from 1 to 1000"),
    ],
)
def test_an_invalid_row_is_refused_before_sending(given, names, words):
    with pytest.raises(BadOption, match=words):
        sink_options.parse({**ADDRESS, **given}, schema(*names))


@pytest.fixture
def scripted():
    """A server that returns prepared responses in turn and records its requests."""
    answers, asked = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = answers.pop(0)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers, asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_only_temporary_failures_are_repeated(scripted):
    address, answers, asked = scripted
    ok, away = {"status": "SEND_OK"}, {"code": "STORE_AWAY", "detail": "away", "retryable": True}
    answers += [
        (503, {"detail": "later", "retryable": True}),
        (200, {"results": [ok, away, ok]}),
        (200, {"results": [ok]}),
    ]
    with Gateway(address, "secret", 60) as gateway:
        results = gateway.send("orders", [encoded({"body": body}) for body in "123"])
    assert results == [ok] * 3
    assert [[message["body"] for message in one["messages"]] for one in asked] == [
        ["1", "2", "3"],
        ["1", "2", "3"],
        ["2"],
    ]


def test_a_permanent_refusal_names_its_field(scripted):
    address, answers, _ = scripted
    answers.append(
        (
            422,
            {
                "code": "MESSAGE_ILLEGAL",
                "detail": "no such topic",
                "retryable": False,
                "field": "messages[0].tag",
            },
        )
    )
    with (
        Gateway(address, None, 60) as gateway,
        pytest.raises(SendRefused, match=r"MESSAGE_ILLEGAL no such topic \(field messages\[0\].tag\)"),
    ):
        gateway.send("orders", [encoded({"body": "1"})])


def test_an_unreachable_gateway_is_tried_until_the_timeout():
    with (
        Gateway("http://127.0.0.1:1", None, 0.2) as gateway,
        pytest.raises(SendRefused, match=r"http://127.0.0.1:1: .*until retrySeconds"),
    ):
        gateway.send("orders", [encoded({"body": "1"})])


@pytest.mark.cluster
def test_a_frame_and_a_stream_reach_their_topic_and_a_repeat_adds_nothing(spark, system, tmp_path):
    http = system["http"]
    for topic in ("sink-batch", "sink-stream"):
        call(http, "PUT", f"/v1/topics/{topic}", {})
    frame = spark.range(1000).selectExpr(
        "to_json(struct(id)) AS body",
        "concat('k-', id) AS keys",
        "map('id', cast(id AS string)) AS properties",
        "id",
    )
    for _ in range(2):  # the second is a repeated task
        frame.write.format("gantry").mode("append").options(
            gateway=http, topic="sink-batch", idempotencyColumns="id"
        ).save()
    read = (
        spark.read.format("gantry")
        .options(path=system["data"], topic="sink-batch", columns="body,keys,property:id")
        .load()
    )
    rows = {(row.body.decode(), row["keys"], row["property:id"]) for row in read.collect()}
    assert read.count() == len(rows) == 1000
    assert ('{"id":7}', "k-7", "7") in rows

    source = spark.readStream.format("gantry").options(
        path=system["data"],
        topic="sink-batch",
        startingOffsets="earliest",
        maxBytesPerTrigger="100k",
        columns="body,physicalOffset,brokerName",
    )
    for _ in range(2):
        stream = (
            source.load().selectExpr("body", "concat(brokerName, physicalOffset) AS idempotencyKey")
            .writeStream.format("gantry").options(gateway=http, topic="sink-stream")
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        stream.awaitTermination()
        assert stream.exception() is None
    assert (
        spark.read.format("gantry").options(path=system["data"], topic="sink-stream").load().count() == 1000
    )


REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""What a gateway takes."""
BODY_BYTES_MAX = 4 * 1024 * 1024 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"))
WORDS = TEXT.filter(bool)
KEYS = st.lists(WORDS.filter(lambda key: key.split() == [key]), max_size=4)
TAGS = WORDS.filter(lambda tag: tag != "*" and "||" not in tag)
PROPERTIES = st.dictionaries(WORDS.map(lambda name: f"p {name}"), WORDS, max_size=4)
TOPICS = ["sink-any", "sink_ANY-2", "%sink%7Cany|"]
"""Names may hold what addresses give a meaning to."""


def rows_of_text(bodies):
    return st.lists(
        st.fixed_dictionaries(
            {"topic": st.sampled_from(TOPICS), "body": bodies},
            optional={
                "tags": TAGS,
                "keys": KEYS.map(" ".join),
                "properties": PROPERTIES,
                "shardingKey": WORDS,
            },
        ),
        max_size=8,
    )


def grown(text, size):
    """A text repeated to about this many bytes of UTF-8."""
    return text * (size // len(text.encode()))


@given(
    st.lists(
        st.builds(grown, WORDS, st.integers(1, 1 << 20) | st.just(BODY_BYTES_MAX)), min_size=1, max_size=12
    )
)
@settings(max_examples=60)
@example(["中" * 9000] * 600)
@example(["\x00" * BODY_BYTES_MAX, '"' * BODY_BYTES_MAX, "\U0001f600" * (BODY_BYTES_MAX // 4)])
def test_no_request_exceeds_the_gateways_limit_whatever_the_text(bodies):
    options = sink_options.parse({**ADDRESS, "topic": "t"}, schema("body"))
    found = []
    for _, messages in writers._requests(iter([pa.RecordBatch.from_pydict({"body": bodies})]), options):
        content = request_of(messages)
        assert len(content) <= (REQUEST_BYTES_MAX if len(messages) == 1 else writers.BATCH_BYTES + 64)
        found += json.loads(content)["messages"]
    assert [content_of(message) for message in found] == [body.encode() for body in bodies]


def content_of(message):
    return message["body"].encode() if "body" in message else base64.b64decode(message["bodyBase64"])


@pytest.fixture(scope="session")
def any_topics(system):
    """The address of a system, and how far the one queue of each topic has been read."""
    for topic in TOPICS:
        path = f"/v1/topics/{urllib.parse.quote(topic, safe='')}"
        call(system["http"], "PUT", path, {"readQueues": 1, "writeQueues": 1})
    return system["http"], {}


@pytest.mark.cluster
@given(rows_of_text(TEXT | st.builds(grown, WORDS, st.integers(1, 200_000))))
@settings(max_examples=40)
def test_any_text_is_read_from_its_topic_as_it_was_in_its_row(any_topics, rows):
    http, read = any_topics
    broker = "broker-a"
    options = sink_options.parse({"gateway": http, "batchMessages": "3"}, schema("body", "topic"))
    placed = [{**row, "brokerName": broker, "queueId": 0} for row in rows]
    batches = [pa.RecordBatch.from_pylist(placed, schema=ROWS)] if placed else []
    assert writers.BatchWriter(options).write(iter(batches)).messages == len(rows)
    for topic in TOPICS:
        wanted = [row for row in rows if row["topic"] == topic]
        path = f"/v1/topics/{urllib.parse.quote(topic, safe='')}/queues/{broker}/0/messages"
        found = []
        while len(found) < len(wanted):
            answer = call(http, "GET", f"{path}?offset={read.get(topic, 0)}&max=32&waitSeconds=10")
            assert answer["messages"], "what was stored does not come"
            found += answer["messages"]
            read[topic] = answer["nextOffset"]
        assert [content_of(message) for message in found] == [row["body"].encode() for row in wanted]
        for message, row in zip(found, wanted, strict=True):
            assert message.get("tag") == row.get("tags")
            assert message.get("keys", []) == row.get("keys", "").split()
            assert message.get("properties", {}) == row.get("properties", {})
            assert message.get("shardingKey") == row.get("shardingKey")


ROWS = pa.schema(
    {
        "topic": pa.string(), "body": pa.string(), "tags": pa.string(), "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()), "shardingKey": pa.string(), "brokerName": pa.string(), "queueId": pa.int32(),
    }
)  # fmt: skip


def test_a_row_without_a_body_is_not_an_empty_message():
    with pytest.raises(BadOption, match="column body of a row for topic a is NULL"):
        requests_of([{"topic": "a", "body": "x"}, {"topic": "a", "body": None}])
    assert requests_of([{"topic": "a", "body": ""}]) == [("a", [{"body": ""}])]
