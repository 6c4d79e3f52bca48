"""POST …/messages:receive, :ack and :extend: hot calls, by the short way that send and pull take."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from gantry_wire.lease_headers import ItemKind
from gantry_wire.names import GANTRY_SYSTEM_PREFIX, GATEWAY_GROUP, SYSTEM_GROUP_PREFIX
from gantry_wire.subscription import SQL92, SUBSCRIBE_ALL, TAG
from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import Problem, forbidden, invalid, rate_limited
from gateway.messages.sql_filters import checked_sql
from gateway.ports.leases import ReceiveAsk
from gateway.ports.stores import RateLimits
from gateway.pull.routes import tags_of
from gateway.receive.acking import Acker, Result, Wanted
from gateway.receive.receiving import Batch, Receiver
from gateway.receive.schemas import (
    AckReply,
    AckRequest,
    ExtendRequest,
    FilterIn,
    ReceiveReply,
    ReceiveRequest,
)
from gateway.requests.checks import group_of, not_derived, query_of, topic_of
from gateway.requests.fields import GroupName, TopicName
from gateway.requests.json_bodies import read_json
from gateway.requests.limits import ITEMS_MAX
from gateway.requests.media_types import check_json_type
from gateway.requests.operations import Details, Operation
from gateway.send.sending import refusal_of

_receive = msgspec.json.Decoder(ReceiveRequest)
_ack = msgspec.json.Decoder(AckRequest)
_extend = msgspec.json.Decoder(ExtendRequest)
PATH = "/v1/topics/{topic}/groups/{group}"

HotRoute = Callable[[Call, str, str], Awaitable[Reply]]
"""Answers a call for a topic and a group."""


class ReceiveRoute:
    """Turns requests into receives."""

    def __init__(self, receiver: Receiver, limits: RateLimits | None) -> None:
        self.receiver, self._limits = receiver, limits
        self.messages = 0
        """How many messages were given out."""

    async def __call__(self, call: Call, topic: TopicName, group: GroupName) -> Reply:
        """Answer one receive."""
        _check(call, topic, group)
        request = read_receive(await _json_body(call))
        kind, expression = _filter_of(request.filter)
        if request.change_filter and not kind:
            raise invalid(
                "changeFilter", "changeFilter needs a filter to put in place of the group's", "filter"
            )
        await _take(self._limits, call)
        ask = ReceiveAsk(
            topic,
            group,
            request.max_messages,
            request.invisible_seconds * 1000,
            kind,
            expression,
            request.change_filter,
        )
        return self.reply(await self.receiver.receive(ask, request.wait_seconds, call.gone))

    def reply(self, batch: Batch) -> Reply:
        """Count what was given out, and say it."""
        self.messages += batch.count
        return Reply(200, batch.json(), on_lost=batch.give_back if batch.count else None)


class AckRoute:
    """Turns requests into acknowledgements."""

    def __init__(self, acker: Acker, limits: RateLimits | None) -> None:
        self.acker, self._limits = acker, limits
        self.messages = 0
        """How many handles were answered."""

    async def __call__(self, call: Call, topic: TopicName, group: GroupName) -> Reply:
        """Answer one acknowledgement."""
        _check(call, topic, group)
        request = read_ack(await _json_body(call))
        count = len(request.acks) + len(request.nacks)
        if not 1 <= count <= ITEMS_MAX:
            limit = f"1…{ITEMS_MAX}"
            raise invalid("acks", f"acks and nacks are {count} together, they may be {limit}", limit)
        await _take(self._limits, call)
        handles = [one.receipt_handle for one in request.acks]
        if not request.nacks:
            return self.reply(await self.acker.ack(topic, group, handles))
        wanted = [Wanted(handle, ItemKind.ACK) for handle in handles]
        wanted += [
            Wanted(
                one.receipt_handle,
                ItemKind.NACK,
                -1 if one.delay_seconds is None else int(one.delay_seconds * 1000),
                one.reason or "",
            )
            for one in request.nacks
        ]
        return self.reply(await self.acker.settle(topic, group, wanted))

    def reply(self, results: list[Result]) -> Reply:
        """Count the handles that were answered, and say what became of them."""
        self.messages += len(results)
        return _reply(results)


class ExtendRoute:
    """Turns requests into extensions."""

    def __init__(self, acker: Acker, limits: RateLimits | None) -> None:
        self._acker, self._limits = acker, limits

    async def __call__(self, call: Call, topic: TopicName, group: GroupName) -> Reply:
        """Answer one extension."""
        _check(call, topic, group)
        request = read_json(_extend, await _json_body(call))
        await _take(self._limits, call)
        wanted = [Wanted(one.receipt_handle, ItemKind.EXTEND) for one in request.extends]
        return _reply(await self._acker.extend(topic, group, wanted, request.invisible_seconds * 1000))


class LeaseRoutes(NamedTuple):
    """All three."""

    receive: ReceiveRoute
    ack: AckRoute
    extend: ExtendRoute

    @property
    def by_verb(self) -> dict[str, HotRoute]:
        """Each by the last part of its path."""
        return {"messages:receive": self.receive, "messages:ack": self.ack, "messages:extend": self.extend}

    def operations(self) -> list[Operation]:
        """Return the calls for the router and the OpenAPI document."""
        return [
            Operation("POST", f"{PATH}/{verb}", route.__call__, "receive and acknowledge", *_DESCRIBED[verb])
            for verb, route in self.by_verb.items()
        ]


_HANDLE = "AQAAAAAAAAAAAAAAEQAAAAEAAAABYnJva2VyLWExMjM0"
_DESCRIBED: dict[str, tuple[tuple[int, ...], Details]] = {
    "messages:receive": (
        (400, 403, 404, 409, 413, 415, 422, 429),
        Details(
            reads_itself=True,
            name="receive_messages",
            summary="Receive messages on lease",
            description="Held up to `waitSeconds` while there is nothing; then 200 with no messages. Nobody else of the group gets "
            "the messages until `invisibleUntil`; what is not acknowledged by then comes again. A group that does not exist is made "
            "and starts at the oldest message. The filter belongs to the group: another one is 409 unless `changeFilter`; none "
            "means the group's.",
            body=ReceiveRequest,
            body_example={"maxMessages": 16, "waitSeconds": 10, "invisibleSeconds": 30},
            is_body_needed=False,
            reply=ReceiveReply,
            reply_words="A result.",
            reply_example={"messages": []},
        ),
    ),
    "messages:ack": (
        (400, 403, 404, 413, 415, 429, 504, 507),
        Details(
            reads_itself=True,
            name="acknowledge_messages",
            summary="Acknowledge messages, or give them back",
            description=f"1 to {ITEMS_MAX} handles. `acked` and `nacked` are durable; asking again changes nothing. A message given "
            "back too often becomes a dead letter, with the reason.",
            body=AckRequest,
            body_example={
                "acks": [{"receiptHandle": _HANDLE}],
                "nacks": [{"receiptHandle": _HANDLE, "delaySeconds": 5, "reason": "no stock"}],
            },
            reply=AckReply,
            reply_words="A result.",
            reply_example={"results": [{"status": "acked"}, {"status": "nacked"}]},
        ),
    ),
    "messages:extend": (
        (400, 403, 404, 413, 415, 429),
        Details(
            reads_itself=True,
            name="extend_leases",
            summary="Keep messages longer, or not so long",
            description="The lease ends `invisibleSeconds` from now; the handle stays the same. Not durable: a restart of the broker "
            "ends it.",
            body=ExtendRequest,
            body_example={"extends": [{"receiptHandle": _HANDLE}], "invisibleSeconds": 60},
            reply=AckReply,
            reply_words="A result.",
            reply_example={"results": [{"status": "extended", "invisibleUntil": "2026-01-01T00:00:00.000Z"}]},
        ),
    ),
}


def read_receive(body: bytes) -> ReceiveRequest:
    """Read the body of a receive; raise the problem 400 that says what is wrong."""
    return read_json(_receive, body) if body.strip() else ReceiveRequest()


def read_ack(body: bytes) -> AckRequest:
    """Read the body of an acknowledgement; raise the problem 400 that says what is wrong."""
    return read_json(_ack, body)


def check_names(topic: str, group: str) -> None:
    """Raise 400 for names that are none, 403 for those of the system."""
    topic_of(topic)
    not_derived(group_of(group))
    if group == GATEWAY_GROUP or group.startswith((GANTRY_SYSTEM_PREFIX, SYSTEM_GROUP_PREFIX)):
        raise forbidden(f"group {group} belongs to the system", "group")


def _check(call: Call, topic: str, group: str) -> None:
    check_names(topic, group)
    if call.scope["query_string"]:
        query_of(call.scope["query_string"])


async def _json_body(call: Call) -> bytes:
    body = await call.body()
    if body:
        check_json_type(call.headers)
    return body


def _filter_of(chosen: FilterIn | None) -> tuple[str, str]:
    """Return kind and expression as the stores take them; "" for the group's own filter."""
    if chosen is None:
        return "", ""
    if chosen.type == "sql92":
        return SQL92, checked_sql(chosen.expression.strip(), "filter.expression").expression
    tags = tags_of(chosen.expression)
    return TAG, "||".join(sorted(tags.names)) or SUBSCRIBE_ALL


async def _take(limits: RateLimits | None, call: Call) -> None:
    if limits is not None:
        wait_ms = await limits.take(call.client, "", 1)
        if wait_ms:
            raise rate_limited(wait_ms)


def _reply(results: list[Result]) -> Reply:
    if len(results) == 1 and isinstance(results[0], Problem):
        raise results[0]
    shown = [refusal_of(one) if isinstance(one, Problem) else one for one in results]
    return json_reply(AckReply(shown))
