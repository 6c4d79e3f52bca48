"""POST /v1/topics/{topic}/messages: a hot call. Takes JSON, a raw body with Mq-* headers, or CloudEvents."""

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any

import msgspec

from gantry_wire.limits import BODY_BYTES_MAX
from gateway.connection.fast_path import Exchange, FastAnswers
from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import Problem, invalid, rate_limited
from gateway.http.trace import trace_properties
from gateway.messages.examples import MESSAGE_EXAMPLE
from gateway.messages.schemas import MessageIn, SendReply, SendRequest, SendResult, count_names
from gateway.ports.stores import RateLimits
from gateway.requests.checks import sendable, topic_of
from gateway.requests.fields import REFERENCE, TopicName
from gateway.requests.json_bodies import read_json
from gateway.requests.limits import MESSAGES_MAX
from gateway.requests.media_types import JSON_TYPE, media_type_of
from gateway.requests.operations import Details, Document, Operation
from gateway.requests.repeated_names import refuse_repeated_names
from gateway.send.cloud_events import (
    EVENT_EXAMPLE,
    binary_event,
    event_batch,
    is_cloud_event,
    structured_event,
)
from gateway.send.cloud_events import PREFIX as EVENT_PREFIX
from gateway.send.drafts import Draft, Drafting
from gateway.send.media_types import EVENT, EVENT_BATCH, check_message_type
from gateway.send.raw_messages import (
    HEADER_OF,
    Named,
    header_fields,
    header_name,
    raw_message,
    read_message,
    refuse_repeated_headers,
)
from gateway.send.raw_messages import PREFIX as MQ_PREFIX
from gateway.send.sending import Result, Sender, refusal_of

_request = msgspec.json.Decoder(SendRequest)
_encode = msgspec.json.encode

SEND = ("POST", "/v1/topics/{topic}/messages")
"""Method and path template."""
EnsureTopic = Callable[[str], Awaitable[None]]


class SendRoute:
    """Converts requests to drafts and results to replies."""

    def __init__(
        self,
        sender: Sender,
        drafting: Drafting,
        limits: RateLimits | None,
        ensure_topic: EnsureTopic | None,
    ) -> None:
        self.sender, self.drafting = sender, drafting
        self._limits, self._ensure_topic = limits, ensure_topic
        self.messages = 0
        """How many messages were acknowledged."""
        self.is_limited = limits is not None

    async def __call__(self, call: Call, topic: TopicName) -> Reply:
        """Answer one send."""
        sendable(topic_of(topic))
        headers = call.headers
        media_type = media_type_of(headers)
        if media_type == JSON_TYPE and not is_cloud_event(headers):
            items, name_of = read_messages(await call.body()), json_names
        else:
            items, name_of = await _other(call, media_type)
        drafts = self.drafting.drafts(items, trace_properties(headers), name_of)
        if self._limits is not None:
            await _take(self._limits, call, topic, len(drafts))
        if self._ensure_topic is not None:
            await self._ensure_topic(topic)
        return self.reply(await self.sender.send(topic, drafts))

    def reply(self, results: list[Result]) -> Reply:
        """Return the reply with these results; raise a problem that is the only result."""
        if len(results) == 1:
            only = results[0]
            if isinstance(only, Problem):
                raise only
            self.messages += 1
            return Reply(200, _only(only))
        refused = sum([isinstance(one, Problem) for one in results])
        self.messages += len(results) - refused
        if refused:
            return json_reply(
                SendReply([refusal_of(one) if isinstance(one, Problem) else one for one in results])
            )
        return Reply(200, b'{"results":' + _encode(results) + b"}\n")


def read_messages(body: bytes) -> list[MessageIn]:
    """Decode the messages of a JSON body; raise the problem 400 that names the error."""
    items = read_json(_request, body).messages
    colons = body.count(b":")  # each name has one
    if colons > 1 + len(items) and colons > count_names(items):
        refuse_repeated_names(body)
    return items


async def _other(call: Call, media_type: bytes) -> Named:
    """Decode a raw body or CloudEvents."""
    headers = call.headers
    for prefix in (MQ_PREFIX, EVENT_PREFIX):
        refuse_repeated_headers(call.scope["headers"], prefix)
    check_message_type(media_type, headers)
    if media_type == EVENT_BATCH:
        return event_batch(await call.body())
    if media_type == EVENT:
        return structured_event(await call.body())
    if is_cloud_event(headers):
        return binary_event(headers, await call.body(BODY_BYTES_MAX))
    body = await call.body(BODY_BYTES_MAX)
    if not body:
        raise invalid(
            "body", 'the raw body is empty; an empty message is sent as JSON with "body":""', "1 byte"
        )
    return raw_message(headers, body)


async def _take(limits: RateLimits, call: Call, topic: str, count: int) -> None:
    wait_ms = await limits.take(call.client, topic, count)
    if wait_ms:
        raise rate_limited(wait_ms)


def _only(result: SendResult) -> bytes:
    return b'{"results":[' + _encode(result) + b"]}\n"


def json_names(place: int, field: str) -> str:
    """Return the path of a message field in the JSON body."""
    return f"messages[{place}].{field}"


class FastSend:
    """Sends of one message under a known head, with the checks and the queue choice of `SendRoute`.

    Leaves requests that are refused, or that wait for more than the store's response, to the slow path before doing anything.
    """

    name = "send"

    def __init__(self, route: SendRoute, answers: FastAnswers, topic: str) -> None:
        self.route, self.answers, self._topic = route, answers, topic
        self._sender, self._drafting = route.sender, route.drafting

    def start(self, exchange: Exchange, body: bytes) -> bool:
        """Start to send the message of a request."""
        started = self.answers.clock()
        try:
            draft = self._draft(body)
            return draft is not None and self._sender.start(
                self._topic, draft, FastSending(self, exchange, started).on_results
            )
        except Problem:
            return False

    def _draft(self, body: bytes) -> Draft | None:
        """Return the one message of a JSON body; None if it has more."""
        if b"},{" in body or b"}, {" in body:  # probably several messages: avoid decoding them twice
            return None
        items = read_messages(body)
        return self._drafting.drafts(items, "", json_names)[0] if len(items) == 1 else None


class FastRawSend(FastSend):
    """Sends of raw bodies under a known head."""

    def __init__(self, route: SendRoute, answers: FastAnswers, topic: str, pattern: MessageIn) -> None:
        """`pattern` is the message of the head's `Mq-` headers, without its body."""
        super().__init__(route, answers, topic)
        self._pattern = pattern

    def _draft(self, body: bytes) -> Draft | None:
        if not body:
            return None
        item = copy(self._pattern)
        item.body_base64 = body
        return self._drafting.drafts((item,), "", header_name)[0]


class FastSending:
    """One fast send that waits for its result."""

    __slots__ = ("_exchange", "_results", "_send", "_started")

    def __init__(self, send: FastSend, exchange: Exchange, started: float) -> None:
        self._send, self._exchange, self._started = send, exchange, started

    def on_results(self, results: list[Result] | Exception) -> None:
        """Write the reply."""
        send, exchange = self._send, self._exchange
        try:
            if isinstance(results, Exception):
                raise results
            result = results[0]
            if type(result) is SendResult:
                body = _only(result)
                if send.answers.write_json(exchange, body, send.name, self._started, may_pack=True):
                    send.route.messages += 1
                    return
            self._results = results
            send.answers.finish(exchange, send.name, self._reply)
        except Exception as error:  # noqa: BLE001 - whatever it was, the request gets an answer
            send.answers.fail(exchange, send.name, error)

    async def _reply(self, _call: Call) -> Reply:
        return self._send.route.reply(self._results)


class FastSends:
    """Creates the fast calls of sends."""

    def __init__(self, route: SendRoute, answers: FastAnswers) -> None:
        self._route, self._answers = route, answers

    def fast_call(self, scope: dict[str, Any]) -> FastSend | None:
        """Return the fast call for requests of this scope; None if only the slow path handles them."""
        parts = scope["path"].split("/")
        access = self._answers.access
        if len(parts) != 5 or self._route.is_limited or access.has_origins:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            topic = sendable(topic_of(parts[3]))
            access.check(scope["method"], scope["path"], headers)
            media_type = media_type_of(headers)
            if media_type == JSON_TYPE:
                return FastSend(self._route, self._answers, topic)
            check_message_type(media_type, headers)
            if media_type in {EVENT, EVENT_BATCH}:
                return None
            refuse_repeated_headers(scope["headers"], MQ_PREFIX)
            pattern = read_message(header_fields(headers), b"", header_name)
        except Problem:
            return None
        return FastRawSend(self._route, self._answers, topic, pattern)


_EVENT: Document = {"$ref": REFERENCE.format(name="CloudEvent")}
_BODIES: dict[str, Document] = {
    "application/octet-stream": {
        "schema": {"type": "string", "format": "binary", "minLength": 1, "maxLength": BODY_BYTES_MAX}
    },
    EVENT.decode(): {"schema": _EVENT, "example": EVENT_EXAMPLE},
    EVENT_BATCH.decode(): {
        "schema": {"type": "array", "minItems": 1, "maxItems": MESSAGES_MAX, "items": _EVENT},
        "example": [EVENT_EXAMPLE],
    },
}
_RESULT = {
    "status": "SEND_OK",
    **{
        name: MESSAGE_EXAMPLE[name]
        for name in ("messageId", "offsetMessageId", "broker", "queueId", "queueOffset")
    },
    "durability": "fsync",
}


def _header(name: str, description: str) -> Document:
    """Describe a header as text; its valid values depend on the kind of body."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": description,
    }


_DETAILS = Details(
    reads_itself=True,
    name="send_messages",
    summary="Send one or many messages",
    description="Results come in the order of the messages. A request with one message takes its result's status; "
    "with several the answer is 200 and each has a result or a refusal. A raw body (any other media type but a form) "
    "is one message, with its fields in `Mq-Tag`, `Mq-Keys`, `Mq-Queue-Id`, `Mq-Broker`, `Mq-Sharding-Key`, "
    "`Mq-Idempotency-Key`, `Mq-Property-<name>` and `Mq-Properties`; with `ce-*` headers it is a CloudEvent.",
    headers=[
        *(
            _header(name, f"`{field}` of a raw body or a binary event.")
            for field, name in HEADER_OF.items()
            if not field.startswith("body")
        ),
        *(
            _header(f"ce-{name}", f"Attribute `{name}` of a CloudEvent in binary mode.")
            for name in ("specversion", "id", "source", "type", "subject")
        ),
        _header("traceparent", "W3C trace context; stored as a property, like `tracestate`."),
    ],
    body=SendRequest,
    body_example={"messages": [{"body": "hi", "tag": "a", "keys": ["o-1"], "properties": {"x": "1"}}]},
    body_content=_BODIES,
    reply=SendReply,
    reply_description="A result for every message.",
    reply_example={"results": [_RESULT]},
)
_STATUSES = (400, 403, 404, 408, 413, 415, 422, 429, 501, 504, 507)


def send_operation(route: SendRoute) -> Operation:
    """Return the call for the router and the OpenAPI document."""
    return Operation(*SEND, route.__call__, "send and pull", _STATUSES, _DETAILS)
