"""`gantrymq schedule …`: delayed messages."""

from typing import Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.tasks import follow
from gantrymq.cli.options import BrokerOption, DryRun, From, Rate, To, TopicOption, Wait, Yes, read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import WRONG_USE, Stop

PAGE_MAX = 1000
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=100_000, help="The most to show.")]
Key = Annotated[str | None, typer.Option("--key", help="Only messages with this key.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID...]", help="Message ids; or none, and options that select messages."),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=read_by(values.instant_of),
        help="The new delivery time: 2026-01-31T12:00:00Z, +10m.",
    ),
]
Shift = Annotated[
    str | None,
    typer.Option("--shift", metavar="DURATION", help="Deliver each later by this: 10m; or earlier: -10m."),
]
CANCEL_EXAMPLES = """
gantrymq schedule cancel 7F0000010CF77F6DE72A69BBC7760001
gantrymq schedule cancel --topic orders --key o-7 --dry-run
"""
MOVE_EXAMPLES = """
gantrymq schedule move 7F0000010CF77F6DE72A69BBC7760001 --at +1h
gantrymq schedule move --topic orders --shift 30m --yes
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    schedule = typer.Typer(help="Delayed messages: list, cancel, move.", no_args_is_help=True)
    app.add_typer(schedule, name="schedule")
    command(schedule, "list", "gantrymq schedule list\ngantrymq schedule list --topic orders --to +1h")(
        list_schedules
    )
    command(schedule, "cancel", CANCEL_EXAMPLES)(cancel)
    command(schedule, "move", MOVE_EXAMPLES)(move)


def list_schedules(
    session: Session,
    topic: TopicOption = None,
    key: Key = None,
    broker: BrokerOption = None,
    from_: From = None,
    to: To = None,
    count: Count = 100,
) -> None:
    """List delayed messages by due time."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    missing: list[str] = []
    while len(found) < count:
        page = session.get(
            path_of("schedules"),
            topic=topic,
            key=key,
            broker=broker,
            from_=from_,
            to=to,
            max=min(PAGE_MAX, count - len(found)),
            after=after,
        )
        found += page["schedules"]
        after, missing = page["next"], page["missing"]
        if not after:
            break
    rows = [
        (
            one["messageId"],
            one["topic"],
            f"{one['broker']}:{one['queueId']}",
            one["deliverAt"],
            one["kind"],
            one["keys"],
        )
        for one in found
    ]

    def people() -> None:
        session.screen.table(
            ("message", "topic", "queue", "due", "kind", "keys"), rows, "no delayed messages"
        )
        if after:
            session.screen.say(f"there are more than {count}: give a larger --max")
        session.warn_missing(missing)

    session.screen.show({"schedules": found, "next": after, "missing": missing}, people)


def cancel(
    session: Session,
    ids: Ids = None,
    topic: TopicOption = None,
    key: Key = None,
    broker: BrokerOption = None,
    from_: From = None,
    to: To = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    yes: Yes = False,
) -> None:
    """Cancel delayed messages: they are never delivered."""
    if ids:
        _refuse_mix(key, from_, to, rate, dry_run)
        for message in ids:
            _show(
                session,
                session.calls.call("DELETE", path_of("schedules", message), topic=topic, broker=broker),
            )
        return
    body = _meant("cancel", topic, key, broker, from_, to) | {"maxPerSecond": rate, "dryRun": dry_run}
    if not dry_run:
        session.confirm("Cancel all selected messages?", is_sure=yes)
    follow(session, session.post(path_of("schedules:bulkCancel"), body), wait=wait)


def move(
    session: Session,
    ids: Ids = None,
    at: At = None,
    shift: Shift = None,
    topic: TopicOption = None,
    key: Key = None,
    broker: BrokerOption = None,
    from_: From = None,
    to: To = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    wait: Wait = True,
    yes: Yes = False,
) -> None:
    """Change the delivery time of delayed messages."""
    if (at is None) == (shift is None):
        raise Stop("give a time: --at TIME, or --shift DURATION", WRONG_USE)
    if ids:
        _refuse_mix(key, from_, to, rate, dry_run)
        if at is None:
            raise Stop("messages named by id are moved with --at", WRONG_USE)
        for message in ids:
            path = path_of("schedules", message)
            _show(session, session.calls.call("PATCH", path, {"deliverAt": at}, topic=topic, broker=broker))
        return
    body = _meant("move", topic, key, broker, from_, to) | {"maxPerSecond": rate, "dryRun": dry_run}
    body |= {"deliverAt": at} if at is not None else {"shiftMs": _shift_ms(str(shift))}
    if not dry_run:
        session.confirm("Move all selected messages?", is_sure=yes)
    follow(session, session.post(path_of("schedules:bulkMove"), body), wait=wait)


def _shift_ms(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    return sign * read_by(values.milliseconds_of)(text.lstrip("+-"))


def _refuse_mix(*given: object) -> None:
    if any(value not in {None, False} for value in given):
        raise Stop("name messages by id, or select them with options: one of the two", WRONG_USE)


def _meant(
    verb: str, topic: str | None, key: str | None, broker: str | None, from_: str | None, to: str | None
) -> dict[str, Any]:
    """Return the selection of a task. Raises Stop if it would select every message."""
    meant = {"topic": topic, "key": key, "broker": broker, "from": from_, "to": to}
    if not any(meant.values()):
        raise Stop(
            f"which messages? name ids to {verb}, or give --topic, --key, --broker, --from or --to", WRONG_USE
        )
    return meant


def _show(session: Session, done: dict[str, Any]) -> None:
    when = f" to {done['deliverAt']}" if done["status"] == "moved" else ""
    session.screen.show(done, lambda: session.screen.line(f"{done['status']} {done['messageId']}{when}"))
