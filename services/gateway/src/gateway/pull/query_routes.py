"""Messages looked up by id, key or time. Replies are built by msgspec, as those of pulls are."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import WithJsonSchema

from gateway.messages.schemas import MessagesReply
from gateway.pull.message_history import MessageHistory
from gateway.pull.queries import FOREVER_MS, Queries
from gateway.requests.checks import time_ms, topic_of
from gateway.requests.parameters import TIME_SCHEMA, IdPath, TopicOrAll, TopicQuery, answers, problems

COUNT_MAX = 1024
_TIME = "RFC 3339, or milliseconds since 1970."


def message_routes(queries: Queries, history: MessageHistory) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["messages"])

    @router.get(
        "/v1/messages",
        responses=problems(400, 403, 404) | answers("MessagesReply", "What was found, oldest first."),
        response_class=Response,
    )
    async def find_messages(
        topic: TopicQuery,
        key: Annotated[
            str,
            Query(max_length=1024, pattern=r"^\S*$", description="One of the message's keys; empty: any."),
        ] = "",
        begin: Annotated[str, Query(alias="from", description=_TIME), WithJsonSchema(TIME_SCHEMA)] = "0",
        end: Annotated[str | None, Query(alias="to", description=_TIME), WithJsonSchema(TIME_SCHEMA)] = None,
        count_max: Annotated[int, Query(alias="max", ge=1, le=COUNT_MAX)] = 64,
    ) -> Response:
        """Find messages of a topic by key, by store time, or both."""
        begin_ms = time_ms(begin, "from")
        end_ms = time_ms(end, "to") if end is not None else FOREVER_MS
        if key:
            found = await queries.by_key(topic_of(topic), key, begin_ms, end_ms, count_max)
        else:
            found = await queries.by_time(topic_of(topic), begin_ms, end_ms, count_max)
        return _json(MessagesReply(*found))

    @router.get(
        "/v1/messages/{id}",
        responses=problems(400, 403, 404) | answers("MessageOut", "The message."),
        response_class=Response,
    )
    async def show_message(id: IdPath, topic: TopicOrAll = "") -> Response:  # noqa: A002 - the name in the path
        """Show one message by its offset id, or by its unique id and topic."""
        return _json(await queries.by_id(id, topic_of(topic) if topic else ""))

    @router.get(
        "/v1/messages/{id}/timeline",
        responses=problems(400, 403, 404) | answers("TimelineReply", "What happened, in order of time."),
        response_class=Response,
    )
    async def show_timeline(id: IdPath, topic: TopicOrAll = "") -> Response:  # noqa: A002 - the name in the path
        """Tell what happened to a message, from the log: stored, scheduled, settled, leased, acked, retried, dead, redriven."""
        return _json(await history.timeline(id, topic_of(topic) if topic else ""))

    return router


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
