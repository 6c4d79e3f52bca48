"""GET /v1/topics/{topic}/queues/{broker}/{queueId}/messages: a hot call; held while there is no message."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gantry_wire.errors import MalformedExpression
from gantry_wire.limits import INT64_MAX, PULL_MESSAGES_MAX
from gantry_wire.sql92.limits import EXPRESSION_CHARS_MAX
from gantry_wire.subscription import EVERYTHING, TagFilter
from gateway.http.access import Access
from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import invalid, rate_limited
from gateway.messages.examples import MESSAGE_EXAMPLE
from gateway.messages.message_view import messages
from gateway.messages.schemas import MessageOut, PullReply
from gateway.messages.sql_filters import checked_sql
from gateway.ports.stores import Pulled, RateLimits
from gateway.pull.pulling import Puller, Selection
from gateway.requests.checks import topic_of
from gateway.requests.fields import QueueId, TopicName
from gateway.requests.operations import Details, Operation

PULL = ("GET", "/v1/topics/{topic}/queues/{broker}/{queueId}/messages")
"""Method and path template."""
COUNT_DEFAULT = 32
WAIT_SECONDS_MAX = 30
FILTER_CHARS_MAX = 4096

BrokerName = Annotated[str, Meta(min_length=1, description="Name of the broker that holds the queue.")]
QueueNumber = Annotated[QueueId, Meta(description="Number of the queue.")]


class PullQuery(Struct, rename="camel"):
    """The query of a pull."""

    offset: Annotated[int, Meta(ge=0, le=INT64_MAX, description="The first offset to return.")] = 0
    max: Annotated[int, Meta(ge=1, le=PULL_MESSAGES_MAX, description="Maximum number of messages.")] = (
        COUNT_DEFAULT
    )
    wait_seconds: Annotated[
        int, Meta(ge=0, le=WAIT_SECONDS_MAX, description="How long to wait for a message.")
    ] = 0
    filter: Annotated[
        Annotated[str, Meta(max_length=FILTER_CHARS_MAX)] | None,
        Meta(description="Tags, as `a || b`; nothing or `*`: all."),
    ] = None
    sql: Annotated[
        Annotated[str, Meta(max_length=EXPRESSION_CHARS_MAX, extra_json_schema={"minLength": 1})] | None,
        Meta(description="A condition in SQL92 over properties, instead of `filter`."),
    ] = None
    encoding: Annotated[Literal["", "base64"], Meta(description="Return every body as `bodyBase64`.")] = ""


class PullRoute:
    """Handles pull requests."""

    def __init__(self, puller: Puller[MessageOut], limits: RateLimits | None, access: Access) -> None:
        self._puller, self._limits, self._access = puller, limits, access
        self.messages = 0
        """How many messages were returned."""

    async def __call__(
        self, call: Call, topic: TopicName, broker: BrokerName, queue_id: QueueNumber, query: PullQuery
    ) -> Reply:
        """Answer one pull."""
        topic_of(topic)
        selection = _selected(query)
        if self._limits is not None:
            wait_ms = await self._limits.take(call.client, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)
        since = self._access.moment
        found = await self._puller.pull(
            topic,
            broker,
            queue_id,
            query.offset,
            count_max=query.max,
            wait_ms=query.wait_seconds * 1000,
            selection=selection,
            client=call,
        )
        self._access.check_again(call, PULL, {"topic": topic}, since)
        self.messages += len(found.messages)
        return json_reply(
            PullReply(found.status, found.next_offset, found.min_offset, found.max_offset, found.messages)
        )


def shown(pulled: Pulled, broker: str, selection: Selection) -> list[MessageOut]:
    """Return pulled messages in the HTTP form. Raises MalformedRecord."""
    found = messages(pulled.records, broker, as_base64=selection.as_base64)
    tags = selection.tags.names
    return [message for message in found if message.tag in tags] if tags else found


def _selected(query: PullQuery) -> Selection:
    """Return the tags, or the condition in SQL92, of a query."""
    as_base64 = query.encoding == "base64"
    if query.sql is None:
        return Selection(tags_of(query.filter or ""), as_base64=as_base64)
    if query.filter is not None:
        raise invalid("sql", "give filter (tags) or sql (a condition), not both", "filter or sql")
    checked_sql(query.sql, "sql")
    return Selection(EVERYTHING, query.sql, as_base64)


def tags_of(expression: str) -> TagFilter:
    """Return the filter of a tag expression such as `a || b`; "" and `*` mean all messages."""
    if len(expression) > FILTER_CHARS_MAX:
        limit = f"{FILTER_CHARS_MAX} characters"
        raise invalid("filter", f"the filter has {len(expression)} characters, the limit is {limit}", limit)
    try:
        return TagFilter.parse(expression.strip())
    except MalformedExpression as error:
        raise invalid("filter", str(error)) from error


_DETAILS = Details(
    name="pull_messages",
    summary="Pull messages of one queue from an offset on",
    description="Held up to `waitSeconds` while there is no message. Continue at `nextOffset`, whatever the status.",
    reply=PullReply,
    reply_description="FOUND with messages, or why there are none.",
    reply_example={
        "status": "FOUND",
        "nextOffset": 18,
        "minOffset": 0,
        "maxOffset": 18,
        "messages": [MESSAGE_EXAMPLE],
    },
)


def pull_operation(route: PullRoute) -> Operation:
    """Return the call for the router and the OpenAPI document."""
    return Operation(*PULL, route.__call__, "send and pull", (400, 403, 404, 422, 429, 431, 501), _DETAILS)
