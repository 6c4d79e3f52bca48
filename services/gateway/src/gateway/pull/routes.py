"""GET /v1/topics/{topic}/queues/{broker}/{queueId}/messages: the other hot call; held while there is nothing."""

from collections.abc import Mapping

from gantry_wire.errors import MalformedExpression
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantry_wire.subscription import EVERYTHING, TagFilter
from gateway.http.call import Call, Reply, json_reply
from gateway.http.problems import invalid, rate_limited
from gateway.messages.sql_filters import checked_sql
from gateway.ports.stores import RateLimits
from gateway.pull.pulling import Puller, Selection
from gateway.requests.checks import number, offset_in, query_of, queue_id_of, topic_of

COUNT_DEFAULT = 32
WAIT_SECONDS_MAX = 30
FILTER_CHARS_MAX = 4096
PARAMETERS = frozenset({"offset", "max", "waitSeconds", "filter", "encoding", "sql"})


class PullRoute:
    """Turns requests into pulls."""

    def __init__(self, puller: Puller, limits: RateLimits | None) -> None:
        self._puller, self._limits = puller, limits
        self.messages = 0
        """How many messages were answered."""

    async def __call__(self, call: Call, topic: str, broker: str, queue: str) -> Reply:
        """Answer one pull."""
        topic_of(topic)
        queue_id = queue_id_of(queue)
        query = query_of(call.scope["query_string"], PARAMETERS)
        offset = offset_in(query)
        count_max = number(query.get("max", str(COUNT_DEFAULT)), "max", 1, PULL_MESSAGES_MAX)
        wait_seconds = number(query.get("waitSeconds", "0"), "waitSeconds", 0, WAIT_SECONDS_MAX)
        selection = _selected(query)
        if self._limits is not None:
            wait_ms = await self._limits.take(call.client, "", 1)
            if wait_ms:
                raise rate_limited(wait_ms)
        reply = await self._puller.pull(
            topic,
            broker,
            queue_id,
            offset,
            count_max=count_max,
            wait_ms=wait_seconds * 1000,
            selection=selection,
            client=call,
        )
        self.messages += len(reply.messages)
        return json_reply(reply)


def _selected(query: Mapping[str, str]) -> Selection:
    """Return the tags, or the condition in SQL92, of a query."""
    sql, as_base64 = query.get("sql"), base64_wanted(query.get("encoding"))
    if sql is None:
        return Selection(tags_of(query.get("filter", "")), as_base64=as_base64)
    if "filter" in query:
        raise invalid("sql", "give filter (tags) or sql (a condition), not both", "filter or sql")
    checked_sql(sql, "sql")
    return Selection(EVERYTHING, sql, as_base64)


def tags_of(expression: str) -> TagFilter:
    """Return the filter of a tag expression such as `a || b`; nothing and `*` mean everything."""
    if len(expression) > FILTER_CHARS_MAX:
        limit = f"{FILTER_CHARS_MAX} characters"
        raise invalid("filter", f"the filter has {len(expression)} characters, the limit is {limit}", limit)
    try:
        return TagFilter.parse(expression.strip())
    except MalformedExpression as error:
        raise invalid("filter", str(error)) from error


def base64_wanted(encoding: str | None) -> bool:
    """Read `encoding=base64`."""
    if encoding not in {None, "", "base64"}:
        raise invalid("encoding", "encoding may be base64", "base64")
    return encoding == "base64"
