"""`gantrymq lag` and `gantrymq offsets reset`: the progress of groups, and moving them."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.options import BrokerOption, DryRun, Group, Topic, TopicOption, Yes, read_by
from gantrymq.cli.session import Session, command

GroupOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="[GROUP]",
        parser=read_by(values.group_name),
        help="Name of a group; without it a total for each group.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="How often with --watch.")]
Target = Annotated[
    str,
    typer.Option(
        "--to", metavar="WHERE", help="earliest, latest, an offset, or a time: 2026-01-31T12:00:00Z, -10m."
    ),
]
QueueOption = Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Only this queue.")]
RESET_EXAMPLES = """
gantrymq offsets reset billing orders --to earliest --dry-run
gantrymq offsets reset billing orders --to -2h --yes
gantrymq offsets reset billing orders --queue broker-a:3 --to 17 --yes
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "lag",
        "gantrymq lag\ngantrymq lag billing --topic orders\ngantrymq lag billing --watch --every 5s",
    )(lag)
    offsets = typer.Typer(help="Offsets of groups: reset.", no_args_is_help=True)

    @offsets.callback()
    def parts() -> None:
        pass

    parts.__doc__ = "Offsets of groups: reset."
    app.add_typer(offsets, name="offsets")
    command(offsets, "reset", RESET_EXAMPLES)(reset)


def lag(
    session: Session,
    group: GroupOrAll = None,
    topic: TopicOption = None,
    watch: Watch = False,
    every: Every = "2s",
) -> None:
    """Show how far groups are behind: all groups, or one queue by queue."""
    pause = read_by(values.seconds_of)(every)
    if pause < 0.1:
        raise typer.BadParameter("--every is at least 100ms")
    while True:
        draw = _of_all(session, topic) if group is None else _of_one(session, group, topic)
        if watch and not session.screen.as_json:
            session.screen.clear()
        draw()
        if not watch:
            return
        time.sleep(pause)


def _of_all(session: Session, topic: str | None) -> Callable[[], None]:
    known = session.get(path_of("groups"))["groups"]
    if not known:
        session.warn_away("groups", is_empty=True)
    found = [session.get(path_of("groups", one["group"], "lag"), topic=topic) for one in known]
    missing = sorted({broker for one in found for broker in one["missing"]})
    shown = [
        {
            "group": one["group"],
            "total": one["total"],
            "oldestUnackedAgeMs": _oldest(one),
            "queues": len(one["queues"]),
        }
        for one in found
    ]
    rows = [
        (one["group"], one["total"], age_words(one["oldestUnackedAgeMs"]), one["queues"]) for one in shown
    ]

    def draw() -> None:
        session.screen.show(
            {"groups": shown, "missing": missing},
            lambda: session.screen.table(("group", "behind>", "oldest>", "queues>"), rows, "no groups yet"),
        )
        session.warn_missing(missing)

    return draw


def _of_one(session: Session, group: str, topic: str | None) -> Callable[[], None]:
    found = session.get(path_of("groups", group, "lag"), topic=topic)
    rows = [
        (
            one["topic"],
            one["broker"],
            one["queueId"],
            one["offset"],
            one["maxOffset"],
            one["lag"],
            age_words(one["oldestUnackedAgeMs"]),
        )
        for one in found["queues"]
    ]

    def people() -> None:
        columns = ("topic", "broker", "queue>", "offset>", "next>", "behind>", "oldest>")
        session.screen.table(columns, rows, f"group {group} has consumed nothing yet")
        session.screen.say(f"behind by {found['total']} in all")
        session.warn_missing(found["missing"])

    return lambda: session.screen.show(found, people)


def reset(
    session: Session,
    group: Group,
    topic: Topic,
    to: Target,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a group to another place in a topic, with or without connected clients."""
    if queue is not None and broker is not None:
        raise typer.BadParameter("give --queue or --broker: one of the two")
    wanted: dict[str, Any] = {"topic": topic, "to": read_by(values.reset_target)(to), "broker": broker}
    if queue is not None:
        wanted["broker"], wanted["queueId"] = read_by(values.queue_of)(queue)
    path = path_of("groups", group, "offsets:reset")
    planned = session.post(path, {**wanted, "dryRun": True})
    if dry_run:
        _show(session, planned)
        return
    session.confirm(
        f"Reset {group} in {topic}: {planned['skipped']} messages are skipped, {planned['replayed']} are delivered again?",
        is_sure=yes,
    )
    _show(session, _reset_each(session, path, wanted, planned))


def _reset_each(
    session: Session, path: str, wanted: dict[str, Any], planned: dict[str, Any]
) -> dict[str, Any]:
    """Reset broker after broker, so that progress is visible; safe to repeat if one of them was down."""
    brokers = list(dict.fromkeys(one["broker"] for one in planned["queues"]))
    done: dict[str, Any] = {**planned, "dryRun": False, "queues": [], "skipped": 0, "replayed": 0}
    with session.screen.progress("resetting", len(planned["queues"])) as tell:
        for broker in brokers:
            answer = session.post(path, {**wanted, "broker": broker})
            done["queues"] += answer["queues"]
            for name in ("skipped", "replayed"):
                done[name] += answer[name]
            tell(len(done["queues"]), len(planned["queues"]))
    return done


def _show(session: Session, reset_: dict[str, Any]) -> None:
    rows = [(one["topic"], one["broker"], one["queueId"], one["from"], one["to"]) for one in reset_["queues"]]
    verb = "would be" if reset_["dryRun"] else "are"

    def people() -> None:
        session.screen.table(("topic", "broker", "queue>", "from>", "to>"), rows)
        session.screen.say(
            f"{reset_['skipped']} messages {verb} skipped, {reset_['replayed']} {verb} delivered again"
        )

    session.screen.show(reset_, people)


def _oldest(lag_: dict[str, Any]) -> int:
    return max((one["oldestUnackedAgeMs"] for one in lag_["queues"]), default=0)


def age_words(milliseconds: int) -> str:
    """Return an age as text; an empty one for none."""
    seconds = milliseconds // 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{milliseconds / 1000:.1f}s" if milliseconds else ""
