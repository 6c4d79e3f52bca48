"""`gantrymq message …`: one message, messages by key or time, and the history of one."""

from typing import Annotated, Any

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.options import From, To, Topic, TopicOption
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import message_fields, message_line

MessageId = Annotated[str, typer.Argument(metavar="ID", help="An offset id, or a message id with --topic.")]
Key = Annotated[str | None, typer.Option("--key", help="One of its keys.")]
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=1024, help="The most to show.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    message = typer.Typer(help="Messages: show, query, timeline.", no_args_is_help=True)
    app.add_typer(message, name="message")
    command(message, "show", "gantrymq message show 7F0000010CF77F6DE72A69BBC7760001 --topic orders")(show)
    command(
        message,
        "query",
        "gantrymq message query orders --key o-1\ngantrymq message query orders --from -10m -n 20",
    )(query)
    command(message, "timeline", "gantrymq message timeline 7F0000010CF77F6DE72A69BBC7760001 --topic orders")(
        timeline
    )


def show(session: Session, message: MessageId, topic: TopicOption = None) -> None:
    """Show all fields of a message."""
    found = session.get(path_of("messages", message), topic=topic)
    session.screen.show(found, lambda: session.screen.fields(message_fields(found)))


def query(
    session: Session, topic: Topic, key: Key = None, from_: From = None, to: To = None, count: Count = 64
) -> None:
    """Find messages of a topic by key, by store time, or both; oldest first."""
    found = session.get(path_of("messages"), topic=topic, key=key, from_=from_, to=to, max=count)
    screen = session.screen
    for message in found["messages"]:
        screen.show(message, lambda message=message: screen.line(message_line(message, screen.paint)))
    if not found["messages"]:
        screen.say("nothing found")
    if found["truncated"]:
        screen.say(f"there are more than {count}: narrow it with --from and --to, or give a larger --max")


def timeline(session: Session, message: MessageId, topic: TopicOption = None) -> None:
    """Show the history of a message: stored, scheduled, delivered, settled, retried, dead, redriven."""
    found = session.get(path_of("messages", message, "timeline"), topic=topic)
    rows = [
        (
            one["at"],
            one["event"],
            one.get("group"),
            one["topic"],
            f"{one['broker']}:{one['queueId']}@{one['queueOffset']}",
            _details(one),
        )
        for one in found["events"]
    ]

    def people() -> None:
        session.screen.table(("when", "event", "group", "topic", "place", "detail"), rows)
        session.warn_missing(found["missing"])

    session.screen.show(found, people)


def _details(event: dict[str, Any]) -> str:
    details: dict[str, Any] = event.get("detail") or {}
    return " ".join(f"{name}={value}" for name, value in details.items())
