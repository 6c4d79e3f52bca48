"""Messages by id, key or time."""

from typing import Annotated

from msgspec import Meta

from gateway.http.call import Call
from gateway.messages.schemas import MessageOut, MessagesReply, TimelineReply
from gateway.pull.message_history import MessageHistory, topic_of_record
from gateway.pull.queries import FOREVER_MS, Queries
from gateway.requests.checks import time_ms, topic_of
from gateway.requests.fields import KeyOrAll, MessageId, TimeText, TopicName, TopicOrAll
from gateway.requests.operations import Details, Operation, Operations

COUNT_MAX = 1024


def message_routes(queries: Queries, history: MessageHistory) -> list[Operation]:
    """Return the routes."""
    calls = Operations("messages")

    @calls.get(
        "/v1/messages", 400, 403, 404, details=Details(reply_description="The messages found, oldest first.")
    )
    async def find_messages(
        topic: TopicName,
        key: KeyOrAll = "",
        from_: TimeText = "0",
        to: TimeText | None = None,
        max_: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 64,
    ) -> MessagesReply:
        """Find messages of a topic by key, by store time, or both."""
        begin_ms = time_ms(from_, "from")
        end_ms = time_ms(to, "to") if to is not None else FOREVER_MS
        if key:
            found = await queries.by_key(topic_of(topic), key, begin_ms, end_ms, max_)
        else:
            found = await queries.by_time(topic_of(topic), begin_ms, end_ms, max_)
        return MessagesReply(*found)

    @calls.get("/v1/messages/{id}", 400, 403, 404, details=Details(reply_description="The message."))
    async def show_message(call: Call, id_: MessageId, topic: TopicOrAll = "") -> MessageOut:
        """Show one message by its offset id, or by its unique id and topic."""
        found = await queries.by_id(id_, topic_of(topic) if topic else "")
        call.check_record(topic_of_record(found))
        return found

    @calls.get(
        "/v1/messages/{id}/timeline",
        400,
        403,
        404,
        details=Details(reply_description="The events, in order of time."),
    )
    async def show_timeline(call: Call, id_: MessageId, topic: TopicOrAll = "") -> TimelineReply:
        """List the events of a message, from the log: stored, scheduled, settled, leased, acked, retried, dead, redriven."""
        return await history.timeline(id_, topic_of(topic) if topic else "", call.check_record)

    return calls.all
