"""`gantrymq cluster …` about the replicas of brokers: who leads, and let another one lead."""

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NoReturn

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.offsets import age_words
from gantrymq.cli.options import read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import FAILED, UNREACHABLE, WRONG_USE, Stop

LOOK_SECONDS = 0.2
HANDOVER_SECONDS = 30.0
Broker = Annotated[str, typer.Argument(metavar="BROKER", help="Name of the broker.")]
To = Annotated[
    str,
    typer.Option(
        "--to", metavar="NAME", help="The replica that shall lead (default: the best one that is in sync)."
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=read_by(values.seconds_of),
        help="Wait so long until another replica leads (default 30s).",
    ),
]
AnyName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the replica.")]
WHERE = "where the stores run, ./gantry replicas {} changes a broker that ./gantry up started (docs/operations.md#replicas)"
YES_NO: dict[bool | None, str] = {True: "yes", False: "no", None: "?"}


def add_to(cluster: typer.Typer) -> None:
    """Add the commands."""
    command(cluster, "replicas", "gantrymq cluster replicas")(show_replicas)
    examples = "gantrymq cluster move-leader broker-a\ngantrymq cluster move-leader broker-a --to b"
    command(cluster, "move-leader", examples)(move_leader)
    command(cluster, "add-replica", "gantrymq cluster add-replica broker-a")(add_replica)
    command(cluster, "remove-replica", "gantrymq cluster remove-replica broker-a c")(remove_replica)


def show_replicas(session: Session) -> None:
    """Show who leads each broker with replicas, since when, in which epoch, and how far the others are behind."""
    asked_at = datetime.now(UTC)
    found = {"groups": session.get(path_of("cluster"))["groups"]}

    def people() -> None:
        rows = [_row(group, one) for group in found["groups"] for one in group["replicas"]]
        columns = (
            "broker",
            "replica",
            "id>",
            "role",
            "epoch>",
            "in sync",
            "fit",
            "bytes behind>",
            "ms behind>",
        )
        session.screen.table(columns, rows, "no broker has replicas")
        for group in found["groups"]:
            if group.get("leadsForMs") is not None:
                session.screen.line(_since(group, asked_at))
            if group["registerFault"]:
                session.screen.line(f"{group['broker']}: the register: {group['registerFault']}")

    session.screen.show(found, people)


def move_leader(session: Session, broker: Broker, to: To = "", timeout: Timeout = HANDOVER_SECONDS) -> None:
    """Let another replica of a broker lead, and wait until it does.

    The leader hands over once every acknowledged message is on the next one; then its process starts again and follows.
    """
    began = time.monotonic()
    moving = session.calls.call("POST", path_of("brokers", f"{broker}:moveLeader"), {}, to=to)
    session.screen.say(f"{broker}: {moving['leader']} hands over to {to or 'a replica that is in sync'}")
    group = _wait(session, moving, began, timeout)
    if group["leader"] == moving["leader"] or (to and group["leader"] != to):
        raise Stop(
            f"{broker}: {group['leader']} leads in epoch {group['epoch']}, not {to or 'another replica'}",
            FAILED,
        )
    words = (
        f"{broker}: {group['leader']} leads in epoch {group['epoch']}, after {time.monotonic() - began:.1f} s"
    )
    session.screen.show(group, lambda: session.screen.line(words))


def _wait(session: Session, moving: dict[str, Any], began: float, timeout: float) -> dict[str, Any]:
    """Show progress until somebody leads in a later epoch and takes sends; return the broker's replicas. Raises Stop after the timeout."""
    broker, said = moving["broker"], ""
    while True:
        group = _group(session, broker)
        words = _obstacle(moving, group)
        if group is not None and not words:
            return group
        seconds = time.monotonic() - began
        if seconds > timeout:
            raise Stop(
                f"{broker}: after {seconds:.0f} s {words}; gantrymq cluster replicas shows the replicas",
                FAILED,
            )
        if words != said:
            session.screen.say(f"{broker}: {words}")
            said = words
        time.sleep(LOOK_SECONDS)


def add_replica(session: Session, broker: Broker) -> None:
    """Say how a replica is added: that is done where the stores run, not over the gateway."""
    del session
    _elsewhere(f"add {broker}")


def remove_replica(session: Session, broker: Broker, name: AnyName) -> None:
    """Say how a replica is removed: that is done where the stores run, not over the gateway."""
    del session
    _elsewhere(f"remove {broker} {name}")


def _elsewhere(words: str) -> NoReturn:
    raise Stop(f"the gateway starts and stops no stores; {WHERE.format(words)}", WRONG_USE)


def _group(session: Session, broker: str) -> dict[str, Any] | None:
    """Return the replicas of a broker; None while the gateway does not answer or knows none."""
    try:
        groups: list[dict[str, Any]] = session.get(path_of("cluster"))["groups"]
    except Stop as stop:
        if stop.status != UNREACHABLE:
            raise
        return None
    return next((group for group in groups if group["broker"] == broker), None)


def _obstacle(moving: dict[str, Any], group: dict[str, Any] | None) -> str:
    """Return why a move is not over; empty when somebody leads in a later epoch and takes sends."""
    if group is None or not group["leader"]:
        return "no replica leads yet"
    leader, epoch = group["leader"], group["epoch"] or 0
    if epoch <= (moving["epoch"] or 0) and leader == moving["leader"]:
        return f"{leader} still leads"
    if not group["acceptsSends"]:
        return f"{leader} leads in epoch {epoch}, and takes sends when more replicas are in sync"
    return ""


def _row(group: dict[str, Any], one: dict[str, Any]) -> tuple[object, ...]:
    return (
        group["broker"],
        one["name"] or one["address"],
        _known(one["brokerId"]),
        one["role"],
        _known(one["epoch"]),
        YES_NO[one["inSync"]],
        YES_NO[one.get("isFit")],  # gateways of earlier versions do not say it
        _known(one["behindBytes"]),
        _known(one["behindMs"]),
    )


def _since(group: dict[str, Any], asked_at: datetime) -> str:
    led_ms: int = group["leadsForMs"]
    since = (asked_at - timedelta(milliseconds=led_ms)).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{group['broker']}: {group['leader']} leads since {since} ({age_words(led_ms) or '0s'})"


def _known(value: object) -> object:
    return "?" if value is None else value
