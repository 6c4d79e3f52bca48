"""`gantrymq pull` and `gantrymq tail`: read messages from the queues; commit nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import CALL_SECONDS, answer_of, path_of, query_of, unreached
from gantrymq.cli.options import Encoded, Sql, Tag, Topic, read_by, refuse_both
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import message_fields, message_line
from gantrymq.cli.stops import NOT_FOUND, WRONG_USE, Stop

if TYPE_CHECKING:
    import httpx

PULL_MAX = 1024
HOLD_SECONDS = 20
AWAY_SECONDS = 1.0
TAILED_QUEUES_MAX = 256
"""Each followed queue needs its own held call."""
QueueOption = Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Only this queue.")]
Offset = Annotated[int | None, typer.Option("--offset", min=0, help="From this offset on; needs --queue.")]
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=100_000, help="The most to show.")]
Last = Annotated[
    int, typer.Option("-n", "--last", min=0, max=1000, help="Number of newest messages to show first.")
]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Continue with new messages, until Ctrl-C.")]
Hold = Annotated[
    int,
    typer.Option("--wait", min=0, max=30, metavar="SECONDS", help="How long to wait if there is no message."),
]
Full = Annotated[bool, typer.Option("--full", help="Show all fields of a message.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    pull_examples = "gantrymq pull orders\ngantrymq pull orders --queue broker-a:3 --offset 17 -n 5\ngantrymq pull orders --filter 'paid || shipped' --json"
    command(app, "pull", pull_examples)(pull)
    command(
        app,
        "tail",
        "gantrymq tail orders\ngantrymq tail orders -f\ngantrymq tail orders -f -n 0 --json | jq -r .body",
    )(tail)


def pull(
    session: Session,
    topic: Topic,
    queue: QueueOption = None,
    offset: Offset = None,
    count: Count = 32,
    wait: Hold = 0,
    filter_: Tag = None,
    sql: Sql = None,
    full: Full = False,
    encoded: Encoded = False,
) -> None:
    """Show messages from the beginning of a topic's queues, or from an offset of one. Commits nothing."""
    refuse_both(filter_, sql)
    if offset is not None and queue is None:
        raise Stop("an offset belongs to a queue: name it with --queue BROKER:ID", WRONG_USE)
    left = count
    for broker, queue_id, first, _end in _queues(session, topic, queue):
        place = path_of("topics", topic, "queues", broker, str(queue_id), "messages")
        position = first if offset is None else offset
        while left > 0:
            answer = session.get(
                place, hold_seconds=wait, offset=position, max=min(left, PULL_MAX), waitSeconds=wait or None, filter=filter_, sql=sql,
                encoding="base64" if encoded else None,
            )  # fmt: skip
            for message in answer["messages"]:
                _print(session, message, full=full)
            left -= len(answer["messages"])
            if answer["status"] == "OFFSET_ILLEGAL" and queue is not None:
                ends = f"it has {answer['minOffset']} to {answer['maxOffset']}"
                raise Stop(f"offset {position} is not in {queue}: {ends}", WRONG_USE)
            if answer["nextOffset"] <= position or (
                not answer["messages"] and answer["nextOffset"] >= answer["maxOffset"]
            ):
                break
            position = answer["nextOffset"]
    if left == count:
        session.screen.say(f"no messages in {queue or topic}")


def tail(
    session: Session,
    topic: Topic,
    follow: Follow = False,
    last: Last = 10,
    queue: QueueOption = None,
    filter_: Tag = None,
    sql: Sql = None,
    full: Full = False,
    encoded: Encoded = False,
) -> None:
    """Show the newest messages of a topic, and with -f new ones as they arrive."""
    refuse_both(filter_, sql)
    queues = _queues(session, topic, queue)
    if follow and len(queues) > TAILED_QUEUES_MAX:
        raise Stop(
            f"{topic} has {len(queues)} queues, at most {TAILED_QUEUES_MAX} can be followed: name one with --queue",
            WRONG_USE,
        )
    shared: dict[str, str | None] = {"filter": filter_, "sql": sql, "encoding": "base64" if encoded else None}
    newest: list[dict[str, Any]] = []
    for broker, queue_id, first, end in queues if last else []:
        answer = session.get(
            path_of("topics", topic, "queues", broker, str(queue_id), "messages"),
            offset=max(first, end - last), max=last, filter=filter_, sql=sql, encoding=shared["encoding"],
        )  # fmt: skip
        newest += answer["messages"]
    newest.sort(key=lambda one: (one["storeTimestamp"], one["broker"], one["queueId"], one["queueOffset"]))
    for message in newest[-last:] if last else []:
        _print(session, message, full=full)
    if follow:
        _run(_Following(session, topic, shared, full=full).run(queues))


def _run(following: Coroutine[Any, Any, None]) -> None:
    """Run it; raise the exception of a task unwrapped."""
    try:
        asyncio.run(following)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


class _Following:
    """Holds a pull at the end of each queue, and prints the answers."""

    def __init__(self, session: Session, topic: str, shared: dict[str, str | None], *, full: bool) -> None:
        self._session, self._topic, self._shared, self._full = session, topic, shared, full

    async def run(self, queues: list[tuple[str, int, int, int]]) -> None:
        import httpx

        calls = self._session.calls
        limits = httpx.Limits(max_connections=TAILED_QUEUES_MAX, max_keepalive_connections=TAILED_QUEUES_MAX)
        async with (
            httpx.AsyncClient(
                base_url=calls.base,
                headers=calls.headers,
                limits=limits,
                verify=calls.verification(),
            ) as client,
            asyncio.TaskGroup() as tasks,
        ):
            for broker, queue_id, _first, end in queues:
                tasks.create_task(self._queue(client, broker, queue_id, end))

    async def _queue(self, client: httpx.AsyncClient, broker: str, queue_id: int, position: int) -> None:
        path = path_of("topics", self._topic, "queues", broker, str(queue_id), "messages")
        while True:
            answer = await self._pull(client, path, position)
            if answer is None:
                await asyncio.sleep(AWAY_SECONDS)
                continue
            for message in answer["messages"]:
                _print(self._session, message, full=self._full)
            position = answer["nextOffset"]

    async def _pull(self, client: httpx.AsyncClient, path: str, position: int) -> dict[str, Any] | None:
        """Return the answer of a held pull; None while the gateway or the broker is down, which is reported once."""
        import ssl

        import httpx

        query = query_of({"offset": position, "waitSeconds": HOLD_SECONDS, **self._shared})
        try:
            response = await client.get(path, params=query, timeout=CALL_SECONDS + HOLD_SECONDS)
        except (
            httpx.TransportError,
            ssl.SSLError,
        ) as error:  # httpx lets errors of TLS after the handshake through
            self._session.screen.say(f"waiting: {unreached(error, self._session.calls.base).words}")
            return None
        if response.status_code in {429, 503, 504}:
            return None
        kind = response.headers.get("content-type", "")
        base = self._session.calls.base
        answer: dict[str, Any] = answer_of(response.status_code, kind, response.content, base)
        return answer


def _queues(session: Session, topic: str, queue: str | None) -> list[tuple[str, int, int, int]]:
    """Return the selected queues: broker, number, first offset, next offset."""
    shown = session.get(path_of("topics", topic))
    session.warn_missing(shown["missing"])
    found = [(one["broker"], one["queueId"], one["minOffset"], one["maxOffset"]) for one in shown["queues"]]
    if queue is None:
        return found
    wanted = read_by(values.queue_of)(queue)
    only = [one for one in found if one[:2] == wanted]
    if not only:
        raise Stop(f"{topic} has no queue {queue}; gantrymq topic show {topic} lists them", NOT_FOUND)
    return only


def _print(session: Session, message: dict[str, Any], *, full: bool) -> None:
    screen = session.screen
    if screen.as_json:
        screen.json(message)
    elif full:
        screen.fields(message_fields(message))
        screen.line("")
    else:
        screen.line(message_line(message, screen.paint))
