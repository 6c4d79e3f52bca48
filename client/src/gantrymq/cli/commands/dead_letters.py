"""`gantrymq dlq …`: dead letters of groups, and sending them again."""

from typing import Annotated, Any

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.tasks import follow
from gantrymq.cli.options import DryRun, Group, Rate, Sql, Tag, Wait, Yes, filter_body
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import body_text, one_line

PAGE_MAX = 256
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=100_000, help="The most to show.")]
Target = Annotated[
    str | None,
    typer.Option("--to", metavar="TOPIC", help="To this topic, or `original`; without it only to the group."),
]
REDRIVE_EXAMPLES = """
gantrymq dlq redrive billing --dry-run
gantrymq dlq redrive billing --filter paid --rate 100 --yes
gantrymq dlq redrive billing --to original --yes
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    dlq = typer.Typer(help="Dead letters: list, redrive.", no_args_is_help=True)
    app.add_typer(dlq, name="dlq")
    command(dlq, "list", "gantrymq dlq list billing\ngantrymq dlq list billing -n 1000 --json")(list_letters)
    command(dlq, "redrive", REDRIVE_EXAMPLES)(redrive)


def list_letters(session: Session, group: Group, count: Count = 32) -> None:
    """List the dead letters of a group, oldest first, with the reason, and whether they were sent again."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    missing: list[str] = []
    while len(found) < count:
        page = session.get(
            path_of("groups", group, "deadLetters"), max=min(PAGE_MAX, count - len(found)), after=after
        )
        found += page["messages"]
        after, missing = page["next"], page["missing"]
        if not after or not page["messages"]:
            break
    if session.screen.as_json:
        for message in found:
            session.screen.json(message)
        return
    columns = ("message", "state", "from", "attempts>", "reason", "body")
    session.screen.table(columns, map(_row, found), f"group {group} has no dead letters")
    session.warn_missing(missing)


def redrive(
    session: Session,
    group: Group,
    to: Target = None,
    filter_: Tag = None,
    sql: Sql = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    yes: Yes = False,
) -> None:
    """Send dead letters again, each once: to the group, to a topic, or to their original topics."""
    body = {"toTopic": to, "filter": filter_body(filter_, sql), "maxPerSecond": rate, "dryRun": dry_run}
    if not dry_run:
        session.confirm(f"Send the dead letters of {group} again?", is_sure=yes)
    follow(session, session.post(path_of("groups", group, "deadLetters:redrive"), body), wait=wait)


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    letter: dict[str, Any] = message.get("deadLetter") or {}
    return (
        message["messageId"], "redriven" if letter.get("redriven") else "waiting", letter.get("originTopic"), letter.get("attempts"), one_line(str(letter.get("reason", "")), 80),
        one_line(body_text(message), 80),
    )  # fmt: skip
