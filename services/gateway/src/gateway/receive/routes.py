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
    ReceiveRequest,
)
from gateway.requests.checks import group_of, not_derived, query_of, topic_of
from gateway.requests.json_bodies import read_json
from gateway.requests.limits import ITEMS_MAX
from gateway.send.media_types import check_json_type
from gateway.send.sending import refusal_of

_decode_receive = msgspec.json.Decoder(ReceiveRequest).decode
_decode_ack = msgspec.json.Decoder(AckRequest).decode
_decode_extend = msgspec.json.Decoder(ExtendRequest).decode
PATH = "/v1/topics/{topic}/groups/{group}"

HotRoute = Callable[[Call, str, str], Awaitable[Reply]]
"""Answers a call for a topic and a group."""


class ReceiveRoute:
    """Turns requests into receives."""

    def __init__(self, receiver: Receiver, limits: RateLimits | None) -> None:
        self.receiver, self._limits = receiver, limits
        self.messages = 0
        """How many messages were given out."""

    async def __call__(self, call: Call, topic: str, group: str) -> Reply:
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

    async def __call__(self, call: Call, topic: str, group: str) -> Reply:
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

    async def __call__(self, call: Call, topic: str, group: str) -> Reply:
        """Answer one extension."""
        _check(call, topic, group)
        request = read_json(_decode_extend, await _json_body(call))
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

    def by_path(self) -> dict[str, HotRoute]:
        """Return each by its path."""
        return {f"{PATH}/{verb}": route for verb, route in self.by_verb.items()}


def read_receive(body: bytes) -> ReceiveRequest:
    """Read the body of a receive; raise the problem 400 that says what is wrong."""
    return read_json(_decode_receive, body) if body.strip() else ReceiveRequest()


def read_ack(body: bytes) -> AckRequest:
    """Read the body of an acknowledgement; raise the problem 400 that says what is wrong."""
    return read_json(_decode_ack, body)


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
