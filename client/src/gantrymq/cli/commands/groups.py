"""`gantrymq group …`: list, show, create, set, delete, pause, resume."""

from typing import Annotated, Any, Literal

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.options import Group, Yes, read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import FAILED, NOT_FOUND, WRONG_USE, Stop

RetryMax = Annotated[
    int | None,
    typer.Option(
        "--retry-max", min=-1, max=1000, help="Repeats before a message is a dead letter; -1: no limit."
    ),
]
RetryQueues = Annotated[
    int | None, typer.Option("--retry-queues", min=1, max=1024, help="Queues of its retry topic.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--retry-after",
        metavar="POLICY",
        help="When a failed message is delivered again: levels, 1s,5s,1m or 1s*2<1m (grows).",
    ),
]
Broadcast = Annotated[
    bool | None,
    typer.Option("--broadcast/--no-broadcast", help="Whether every client may get every message."),
]
Order = Annotated[
    Literal["none", "shardingKey"] | None,
    typer.Option("--order", help="Receive one by one per shardingKey, or without order."),
]
StartAt = Annotated[
    Literal["earliest", "latest"] | None,
    typer.Option("--start-at", help="Where receives of a new topic begin."),
]
KeepOffsets = Annotated[bool, typer.Option("--keep-offsets", help="Keep its offsets.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Consumer groups: list, show, create, set, delete, pause, resume.", no_args_is_help=True
    )
    app.add_typer(group, name="group")
    command(group, "list", "gantrymq group list")(list_groups)
    command(group, "show", "gantrymq group show billing")(show)
    command(group, "create", "gantrymq group create billing --retry-max 3 --retry-after 1s,10s,1m")(create)
    command(group, "set", "gantrymq group set billing --order shardingKey")(change)
    command(group, "delete", "gantrymq group delete billing --yes")(delete)
    command(group, "pause", "gantrymq group pause billing")(pause)
    command(group, "resume", "gantrymq group resume billing")(resume)


def list_groups(session: Session) -> None:
    """List the consumer groups."""
    found = session.get(path_of("groups"))
    session.warn_away("groups", is_empty=not found["groups"])
    rows = [
        (
            one["group"],
            "paused" if one["paused"] else "runs",
            one["retryMaxTimes"],
            policy_words(one["retryPolicy"]),
            one["order"],
            one["startAt"],
        )
        for one in found["groups"]
    ]
    columns = ("group", "state", "repeats>", "retry after", "order", "starts at")
    session.screen.show(
        found, lambda: session.screen.table(columns, rows, "no groups yet: gantrymq group create NAME")
    )


def show(session: Session, group: Group) -> None:
    """Show a consumer group."""
    found = session.get(path_of("groups", group))
    pairs = [
        ("group", found["group"]),
        ("state", "paused" if found["paused"] else "runs"),
        ("repeats", found["retryMaxTimes"]),
        ("retry after", policy_words(found["retryPolicy"])),
        ("retry queues", found["retryQueues"]),
        ("broadcast", found["broadcast"]),
        ("order", found["order"]),
        ("starts at", found["startAt"]),
        ("brokers", found["brokers"]),
    ]
    session.screen.show(found, lambda: session.screen.fields(pairs))


def create(
    session: Session,
    group: Group,
    retry_max: RetryMax = None,
    retry_after: Policy = None,
    retry_queues: RetryQueues = None,
    broadcast: Broadcast = None,
    order: Order = None,
    start_at: StartAt = None,
) -> None:
    """Create a consumer group on every broker; an existing group is refused."""
    given = _given(retry_max, retry_after, retry_queues, broadcast, order, start_at)
    if _settings(session, group) is not None:
        raise Stop(f"group {group} exists already; gantrymq group set {group} changes it", FAILED)
    answer = session.put(path_of("groups", group), given)
    session.screen.show(answer, lambda: session.screen.line(f"created group {group}"))


def change(
    session: Session,
    group: Group,
    retry_max: RetryMax = None,
    retry_after: Policy = None,
    retry_queues: RetryQueues = None,
    broadcast: Broadcast = None,
    order: Order = None,
    start_at: StartAt = None,
) -> None:
    """Change a consumer group on every broker; other settings stay."""
    given = _given(retry_max, retry_after, retry_queues, broadcast, order, start_at)
    if not given:
        raise Stop("nothing to change: give an option (see gantrymq group set --help)", WRONG_USE)
    held = _settings(session, group)
    if held is None:
        raise Stop(f"group {group} does not exist; gantrymq group create {group} creates it", NOT_FOUND)
    answer = session.put(path_of("groups", group), held | given)
    session.screen.show(answer, lambda: session.screen.line(f"changed group {group}"))


def delete(session: Session, group: Group, keep_offsets: KeepOffsets = False, yes: Yes = False) -> None:
    """Delete a consumer group with its offsets."""
    session.confirm(f"Delete group {group}?", is_sure=yes)
    answer = session.calls.call("DELETE", path_of("groups", group), offsets=not keep_offsets)
    session.screen.show({"group": group, **answer}, lambda: session.screen.line(f"deleted group {group}"))


def pause(session: Session, group: Group) -> None:
    """Stop deliveries to a group; its offsets stay."""
    _act(session, group, "pause")


def resume(session: Session, group: Group) -> None:
    """Resume deliveries to a paused group."""
    _act(session, group, "resume")


def policy_words(policy: dict[str, Any] | None) -> str:
    """Return a retry policy in the form of --retry-after."""
    if policy is None:
        return "levels"
    if policy["type"] == "list":
        return ",".join(_duration(one) for one in policy["delaysMs"])
    return f"{_duration(policy['initialMs'])}*{policy['multiplier']:g}<{_duration(policy['maxMs'])}"


def _duration(milliseconds: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def _act(session: Session, group: str, verb: str) -> None:
    answer = session.post(path_of("groups", f"{group}:{verb}"))
    session.screen.show(
        {"group": group, **answer}, lambda: session.screen.line(f"{answer['status']} group {group}")
    )


def _settings(session: Session, group: str) -> dict[str, Any] | None:
    """Return a group's settings in the form of PUT; None if there is no such group."""
    for one in session.get(path_of("groups"))["groups"]:
        if one["group"] == group:
            return {name: value for name, value in one.items() if name not in {"group", "brokers"}}
    return None


def _given(
    retry_max: int | None,
    retry_after: str | None,
    retry_queues: int | None,
    broadcast: bool | None,
    order: str | None,
    start_at: str | None,
) -> dict[str, Any]:
    named = {
        "retryMaxTimes": retry_max, "retryQueues": retry_queues, "broadcast": broadcast, "order": order, "startAt": start_at,
    }  # fmt: skip
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if retry_after is not None:  # null is a policy too: RocketMQ's levels
        given["retryPolicy"] = read_by(values.retry_policy)(retry_after)
    return given
