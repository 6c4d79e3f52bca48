"""Options and arguments that several commands share, with their --help texts."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from gantrymq.cli import values

T = TypeVar("T")


def read_by(read: Callable[[str], T]) -> Callable[[Any], T]:
    """Return a parser for typer that reports an error as text. Defaults pass through unchanged."""

    def parse(text: Any) -> T:
        try:
            return read(text) if isinstance(text, str) else text
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", parser=read_by(values.topic_name), help="Name of the topic.")
]
Group = Annotated[
    str,
    typer.Argument(metavar="GROUP", parser=read_by(values.group_name), help="Name of the consumer group."),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", parser=read_by(values.topic_name), help="Only this topic."),
]
BrokerOption = Annotated[str | None, typer.Option("--broker", help="Only this broker.")]
Tag = Annotated[
    str | None, typer.Option("--filter", metavar="TAGS", help="Only these tags: 'paid || shipped'.")
]
Sql = Annotated[
    str | None,
    typer.Option("--sql", metavar="CONDITION", help="Only matching messages: \"total > 3 AND kind = 'a'\"."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        parser=read_by(values.instant_of),
        help="From this time on: 2026-01-31T12:00:00Z, -10m (ago).",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", parser=read_by(values.instant_of), help="Before this time."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]
Rate = Annotated[
    float | None,
    typer.Option("--rate", min=0.001, max=1_000_000, metavar="N", help="At most this many a second."),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the end of the task, or return once it has begun.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Encoded = Annotated[bool, typer.Option("--base64", help="Show every body in base64.")]


def refuse_both(filter_: str | None, sql: str | None) -> None:
    """Raise if two filters are given."""
    if filter_ is not None and sql is not None:
        raise typer.BadParameter("give --filter or --sql: one of the two")


def filter_body(filter_: str | None, sql: str | None) -> dict[str, str] | None:
    """Return the filter of these two options in the gateway's format."""
    refuse_both(filter_, sql)
    if sql is not None:
        return {"type": "sql92", "expression": sql}
    return None if filter_ is None else {"type": "tag", "expression": filter_}
