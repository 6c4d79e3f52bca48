"""Dead letters of a consumer group: list, and redrive by a task."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry_wire.errors import MalformedExpression
from gantry_wire.private_requests.scheduling import CreateTask, MessageFilter
from gantry_wire.subscription import TagFilter
from gateway.admin.dead_letters import DeadLetters
from gateway.admin.groups import GroupAdmin
from gateway.http.problems import Problem, invalid
from gateway.messages.schemas import DeadLettersReply
from gateway.messages.sql_filters import checked_sql
from gateway.requests.checks import sendable, topic_of
from gateway.requests.fields import GroupName
from gateway.requests.operations import Details, Operation, Operations
from gateway.routing.route_cache import RouteCache
from gateway.schedules.routes import After
from gateway.schedules.schemas import FilterBody, RedriveBody, TaskShown
from gateway.schedules.task_routes import shown_task
from gateway.schedules.tasks import Tasks

LIMIT_DEFAULT, LIMIT_MAX = 32, 256
ORIGINAL = "original"


def dead_letter_routes(
    letters: DeadLetters, groups: GroupAdmin, routes: RouteCache, tasks: Tasks
) -> list[Operation]:
    """Return the routes."""
    calls = Operations("dead letters")

    @calls.get(
        "/v1/groups/{group:plain}/deadLetters",
        400,
        404,
        details=Details(reply_description="Dead letters, oldest first."),
    )
    async def list_dead_letters(
        group: GroupName,
        max_: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
        after: After = "",
        encoding: Annotated[
            Literal["", "base64"], Meta(description="Return every body as `bodyBase64`.")
        ] = "",
    ) -> DeadLettersReply:
        """List the dead letters of a group, with their reason: the last error, attempts, consumer, and origin."""
        page = await letters.page(group, after, max_, as_base64=bool(encoding))
        return DeadLettersReply(page.messages, page.next, page.missing)

    @calls.post("/v1/groups/{group:plain}/deadLetters:redrive", 400, 403, 404, 413, 415, 422, 507)
    async def redrive(group: GroupName, body: RedriveBody | None = None) -> TaskShown:
        """Start a task that sends dead letters again, each once; letters already redriven are skipped."""
        wanted = body or RedriveBody()
        await groups.get(group)
        if wanted.to_topic is not None and wanted.to_topic != ORIGINAL:
            try:
                await routes.get(sendable(topic_of(wanted.to_topic)))
            except Problem as problem:
                problem.field = problem.field and "toTopic"
                raise
        wanted_filter = _filter(wanted.filter)
        if wanted.to_topic is None and not wanted.dry_run:
            await letters.make_retry_topic(group)
        task = CreateTask(
            kind="redrive",
            group=group,
            target=wanted.to_topic,
            filter=wanted_filter,
            max_per_second=wanted.max_per_second,
            dry_run=wanted.dry_run,
        )
        return shown_task(await tasks.create(task))

    return calls.all


def _filter(body: FilterBody | None) -> MessageFilter | None:
    if body is None:
        return None
    if body.type == "sql92":
        checked_sql(body.expression, "filter.expression")
    else:
        try:
            TagFilter.parse(body.expression)
        except MalformedExpression as error:
            raise invalid("filter.expression", str(error)) from error
    return MessageFilter(type=body.type, expression=body.expression)
