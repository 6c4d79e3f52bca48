"""POST …/messages:receive, :ack and :extend: hot calls."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from gantry_wire.names import GANTRY_SYSTEM_PREFIX, GATEWAY_GROUP, SYSTEM_GROUP_PREFIX
from gantry_wire.private_requests.leases import ItemKind
from gantry_wire.subscription import SQL92, SUBSCRIBE_ALL, TAG
from gateway.connection.fast_path import Exchange, FastAnswers
from gateway.http.access import Access, Moment
from gateway.http.call import Call, Reply, json_reply, takes_gzip
from gateway.http.problems import LeaderAway, Problem, forbidden, invalid, rate_limited
from gateway.messages.sql_filters import checked_sql
from gateway.ports.leases import ReceiveAsk
from gateway.ports.stores import RateLimits
from gateway.pull.routes import tags_of
from gateway.receive.acking import ACKED, Acker, Result, Wanted
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
from gateway.requests.media_types import JSON_TYPE, check_json_type, media_type_of
from gateway.requests.operations import Details, Operation
from gateway.send.sending import refusal_of

_receive = msgspec.json.Decoder(ReceiveRequest)
_ack = msgspec.json.Decoder(AckRequest)
_extend = msgspec.json.Decoder(ExtendRequest)
PATH = "/v1/topics/{topic}/groups/{group}"
RECEIVE, ACK, EXTEND = "messages:receive", "messages:ack", "messages:extend"
LEASES = {verb: ("POST", f"{PATH}/{verb}") for verb in (RECEIVE, ACK, EXTEND)}
"""Method and path template, by the last part of the path."""
_ACKED_JSON = b'{"status":"acked"}'


def json_of(batch: Batch) -> bytes:
    """Return the body of a reply."""
    return b'{"messages":[' + b",".join(batch.parts) + b"]}\n"


HotRoute = Callable[[Call, str, str], Awaitable[Reply]]
"""Answers a call for a topic and a group."""


class ReceiveRoute:
    """Handles receive requests."""

    def __init__(self, receiver: Receiver, limits: RateLimits | None, access: Access) -> None:
        self.receiver, self._limits, self.access = receiver, limits, access
        self.messages = 0
        """How many messages were delivered."""

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
        since = self.access.moment
        batch = await self.receiver.receive(ask, request.wait_seconds, call.gone)
        return self.reply_late(call, batch, topic, group, since)

    def reply_late(self, call: Call, batch: Batch, topic: str, group: str, since: Moment) -> Reply:
        """Return the reply to a call that may have waited: its client may have lost its right. Raise 401, 403."""
        try:
            self.access.check_again(call, LEASES[RECEIVE], {"topic": topic, "group": group}, since)
        except BaseException:
            batch.give_back()
            raise
        return self.reply(batch)

    def reply(self, batch: Batch) -> Reply:
        """Count the delivered messages, and return the reply."""
        try:
            body = json_of(batch)
        except Exception:
            batch.give_back()
            raise
        self.messages += batch.count
        return Reply(200, body, on_lost=batch.give_back if batch.count else None)


class AckRoute:
    """Handles acknowledgements."""

    def __init__(self, acker: Acker, limits: RateLimits | None) -> None:
        self.acker, self._limits = acker, limits
        self.messages = 0
        """How many handles were settled."""

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
        """Count the settled handles, and return their results."""
        self.messages += len(results)
        return _reply(results)


class ExtendRoute:
    """Handles extensions."""

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
        """By the last part of their path."""
        return {RECEIVE: self.receive, ACK: self.ack, EXTEND: self.extend}

    def operations(self) -> list[Operation]:
        """Return the calls for the router and the OpenAPI document."""
        return [
            Operation(*LEASES[verb], route.__call__, "receive and acknowledge", *_DESCRIBED[verb])
            for verb, route in self.by_verb.items()
        ]


class FastReceive:
    """Receives with a group's own filter under a known head, with the checks of `ReceiveRoute`.

    Leaves requests that are refused, or that wait for the route, to the slow path before doing anything; a receive without messages
    waits there.
    """

    name = RECEIVE

    def __init__(
        self, route: ReceiveRoute, answers: FastAnswers, topic: str, group: str, *, may_pack: bool
    ) -> None:
        self.route, self.answers, self.may_pack = route, answers, may_pack
        self._topic, self._group = topic, group

    def start(self, exchange: Exchange, body: bytes) -> bool:
        """Start the receive of a request."""
        started = self.answers.clock()
        try:
            request = read_receive(body)
        except Problem:
            return False
        if request.filter is not None or request.change_filter:
            return False
        ask = ReceiveAsk(self._topic, self._group, request.max_messages, request.invisible_seconds * 1000)
        receiving = FastReceiving(self, exchange, ask, request.wait_seconds, started)
        return self.route.receiver.start(ask, receiving.on_batch)


class FastReceiving:
    """One fast receive that waits for its brokers."""

    __slots__ = ("_ask", "_batch", "_call", "_exchange", "_since", "_started", "_wait_seconds")

    def __init__(
        self, call: FastReceive, exchange: Exchange, ask: ReceiveAsk, wait_seconds: float, started: float
    ) -> None:
        self._call, self._exchange, self._ask = call, exchange, ask
        self._since = call.route.access.moment
        self._wait_seconds, self._started = wait_seconds, started

    def on_batch(self, batch: Batch | Exception) -> None:
        """Write the reply; give back messages that cannot be written."""
        call, exchange = self._call, self._exchange
        try:
            self._answer(batch)
        except Exception as error:  # noqa: BLE001 - whatever it was, the request gets an answer
            if isinstance(batch, Batch) and not exchange.is_answered:
                batch.give_back()
            call.answers.fail(exchange, RECEIVE, error)

    def _answer(self, batch: Batch | Exception) -> None:
        call, exchange = self._call, self._exchange
        if isinstance(batch, Batch) and batch.count and not exchange.is_lost:
            body, count = json_of(batch), batch.count
            if call.answers.write_json(exchange, body, RECEIVE, self._started, may_pack=call.may_pack):
                call.route.messages += count
                if exchange.is_lost:
                    batch.give_back()
                return
        self._batch = batch
        call.answers.finish(exchange, RECEIVE, self._reply)

    async def _reply(self, call: Call) -> Reply:
        route, batch = self._call.route, self._batch
        left = self._wait_seconds - (self._call.answers.clock() - self._started)
        may_wait = isinstance(batch, LeaderAway) or (isinstance(batch, Batch) and not batch.count)
        if may_wait and left > 0:
            batch = await route.receiver.wait(self._ask, left, call.gone)
        if isinstance(batch, Exception):
            raise batch
        return route.reply_late(call, batch, self._ask.topic, self._ask.group, self._since)


class FastAck:
    """Acknowledgements of one broker's messages under a known head, with the checks of `AckRoute`."""

    name = ACK

    def __init__(
        self, route: AckRoute, answers: FastAnswers, topic: str, group: str, *, may_pack: bool
    ) -> None:
        self.route, self.answers, self.may_pack = route, answers, may_pack
        self._topic, self._group = topic, group

    def start(self, exchange: Exchange, body: bytes) -> bool:
        """Start the acknowledgement of a request."""
        started = self.answers.clock()
        try:
            request = read_ack(body)
        except Problem:
            return False
        count = len(request.acks)
        if request.nacks or not 1 <= count <= ITEMS_MAX:
            return False
        acking = FastAcking(self, exchange, count, started)
        handles = [one.receipt_handle for one in request.acks]
        return self.route.acker.start(self._topic, self._group, handles, acking.on_results)


class FastAcking:
    """One fast acknowledgement that waits for its broker."""

    __slots__ = ("_call", "_count", "_exchange", "_results", "_started")

    def __init__(self, call: FastAck, exchange: Exchange, count: int, started: float) -> None:
        self._call, self._exchange, self._count, self._started = call, exchange, count, started

    def on_results(self, results: list[Result] | Exception | None) -> None:
        """Write the reply; None: every message is acknowledged."""
        try:
            if isinstance(results, Exception):
                raise results
            self._answer(results)
        except Exception as error:  # noqa: BLE001 - whatever it was, the request gets an answer
            self._call.answers.fail(self._exchange, ACK, error)

    def _answer(self, results: list[Result] | None) -> None:
        call, exchange, count = self._call, self._exchange, self._count
        if results is None:
            body = b'{"results":[' + b",".join([_ACKED_JSON] * count) + b"]}\n"
            if call.answers.write_json(exchange, body, ACK, self._started, may_pack=call.may_pack):
                call.route.messages += count
                return
        self._results = results
        call.answers.finish(exchange, ACK, self._reply)

    async def _reply(self, _call: Call) -> Reply:
        results = self._results
        return self._call.route.reply([ACKED] * self._count if results is None else results)


class FastLeases:
    """Creates the fast calls of receive and acknowledge."""

    def __init__(self, routes: LeaseRoutes, answers: FastAnswers, *, is_limited: bool) -> None:
        self._routes, self._answers, self._is_limited = routes, answers, is_limited

    def fast_call(self, scope: dict[str, Any]) -> FastReceive | FastAck | None:
        """Return the fast call for requests of this scope; None if only the slow path handles them."""
        parts = scope["path"].split("/")
        access = self._answers.access
        if len(parts) != 7 or self._is_limited or access.has_origins:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        topic, group, verb = parts[3], parts[5], parts[6]
        try:
            check_names(topic, group)
            access.check(scope["method"], scope["path"], headers)
        except Problem:
            return None
        if media_type_of(headers) != JSON_TYPE:
            return None
        may_pack = takes_gzip(headers)
        if verb == RECEIVE:
            return FastReceive(self._routes.receive, self._answers, topic, group, may_pack=may_pack)
        if verb == ACK:
            return FastAck(self._routes.ack, self._answers, topic, group, may_pack=may_pack)
        return None


_HANDLE = "AQAAAAAAAAAAAAAAEQAAAAEAAAABYnJva2VyLWExMjM0"
_DESCRIBED: dict[str, tuple[tuple[int, ...], Details]] = {
    RECEIVE: (
        (400, 403, 404, 409, 413, 415, 422, 429),
        Details(
            reads_itself=True,
            name="receive_messages",
            summary="Receive messages on lease",
            description="Held up to `waitSeconds` while there is no message; then 200 with an empty list. No other client of the group "
            "gets the messages until `invisibleUntil`; messages that are not acknowledged by then are delivered again. A missing group "
            "is created and starts at the oldest message. The filter belongs to the group: a different one is 409 unless "
            "`changeFilter` is set; without one, the group's applies.",
            body=ReceiveRequest,
            body_example={"maxMessages": 16, "waitSeconds": 10, "invisibleSeconds": 30},
            is_body_needed=False,
            reply=ReceiveReply,
            reply_description="A result.",
            reply_example={"messages": []},
        ),
    ),
    ACK: (
        (400, 403, 404, 413, 415, 429, 504, 507),
        Details(
            reads_itself=True,
            name="acknowledge_messages",
            summary="Acknowledge messages, or give them back",
            description=f"1 to {ITEMS_MAX} handles. `acked` and `nacked` are durable; a repeated call changes nothing. A message given "
            "back too often becomes a dead letter, with the reason.",
            body=AckRequest,
            body_example={
                "acks": [{"receiptHandle": _HANDLE}],
                "nacks": [{"receiptHandle": _HANDLE, "delaySeconds": 5, "reason": "no stock"}],
            },
            reply=AckReply,
            reply_description="A result.",
            reply_example={"results": [{"status": "acked"}, {"status": "nacked"}]},
        ),
    ),
    EXTEND: (
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
            reply_description="A result.",
            reply_example={"results": [{"status": "extended", "invisibleUntil": "2026-01-01T00:00:00.000Z"}]},
        ),
    ),
}


def read_receive(body: bytes) -> ReceiveRequest:
    """Decode the body of a receive; raise the problem 400 that names the error."""
    return read_json(_receive, body) if body.strip() else ReceiveRequest()


def read_ack(body: bytes) -> AckRequest:
    """Decode the body of an acknowledgement; raise the problem 400 that names the error."""
    return read_json(_ack, body)


def check_names(topic: str, group: str) -> None:
    """Raise 400 for invalid names, 403 for those of the system."""
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
    """Return type and expression in the stores' form; "" for the group's own filter."""
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
