"""`gantrymq receive`, `ack`, `nack` and `consume`: messages on lease for a group."""

from typing import Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.consuming import BATCH_MAX, Consuming
from gantrymq.cli.executing import Worker
from gantrymq.cli.options import Group, Sql, Tag, Topic, filter_body, read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import counted, message_line
from gantrymq.cli.stops import FAILED, WRONG_USE, Stop

Count = Annotated[int, typer.Option("--max", "-n", min=1, max=BATCH_MAX, help="The most to receive.")]
Hold = Annotated[
    int,
    typer.Option("--wait", min=0, max=30, metavar="SECONDS", help="How long to wait if there is no message."),
]
Invisible = Annotated[
    str,
    typer.Option(
        "--invisible", metavar="DURATION", help="How long no other client of the group gets them: 1s to 12h."
    ),
]
AckNow = Annotated[bool, typer.Option("--ack", help="Acknowledge the messages shown.")]
ChangeFilter = Annotated[
    bool, typer.Option("--change-filter", help="Replace the group's filter with this one.")
]
Handles = Annotated[
    list[str], typer.Argument(metavar="HANDLE...", help="Receipt handles, as receive --json shows them.")
]
DelayOption = Annotated[
    str | None,
    typer.Option(
        "--delay", metavar="DURATION", help="Deliver again after this time; default: the group's policy."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Kept with its dead letter.")]
Exec = Annotated[
    str,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="Run for every message: the body on standard input, GANTRY_… in the environment.",
    ),
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=64, help="How many commands run at once.")]
Limit = Annotated[int | None, typer.Option("--max", "-n", min=1, help="End after this many messages.")]
UntilEmpty = Annotated[bool, typer.Option("--until-empty", help="End when nothing is left to receive.")]
CONSUME_EXAMPLES = """
gantrymq consume orders billing --exec 'jq .total'
gantrymq consume orders billing --exec './bill.sh "$GANTRY_KEYS"' --parallel 4
gantrymq consume orders billing --exec 'cat >> orders.txt' --until-empty
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    command(
        app,
        "receive",
        "gantrymq receive orders billing --wait 10\ngantrymq receive orders billing -n 1 --ack --json",
    )(receive)
    command(app, "ack", "gantrymq ack orders billing GzTfVAEAAAAAAQ…")(ack)
    command(app, "nack", "gantrymq nack orders billing GzTfVAEAAAAAAQ… --delay 30s --reason 'no stock'")(nack)
    command(app, "consume", CONSUME_EXAMPLES)(consume)


def receive(
    session: Session,
    topic: Topic,
    group: Group,
    count: Count = 16,
    wait: Hold = 0,
    invisible: Invisible = "30s",
    acknowledge: AckNow = False,
    filter_: Tag = None,
    sql: Sql = None,
    change_filter: ChangeFilter = False,
) -> None:
    """Receive messages of a group on lease; unacknowledged ones are delivered again when it ends."""
    body = {
        "maxMessages": count, "waitSeconds": wait, "invisibleSeconds": lease_seconds(invisible),
        "filter": filter_body(filter_, sql), "changeFilter": change_filter,
    }  # fmt: skip
    found = session.post(_path(topic, group, "receive"), body, hold_seconds=wait)["messages"]
    screen = session.screen
    for message in found:
        words = f"{message_line(message, screen.paint)}\n  handle {message['receiptHandle']}  attempt {message['deliveryAttempt']}"
        screen.show(message, lambda words=words: screen.line(words))
    if not found:
        screen.say(f"no message to receive for {group} in {topic}")
    elif acknowledge:
        acks = [{"receiptHandle": one["receiptHandle"]} for one in found]
        _settle(session, topic, group, {"acks": acks}, is_result=False)


def ack(session: Session, topic: Topic, group: Group, handles: Handles) -> None:
    """Acknowledge messages: they are done for this group."""
    _settle(session, topic, group, {"acks": [{"receiptHandle": one} for one in handles]}, is_result=True)


def nack(
    session: Session,
    topic: Topic,
    group: Group,
    handles: Handles,
    delay: DelayOption = None,
    reason: Reason = None,
) -> None:
    """Give messages back: they are delivered again."""
    seconds = None if delay is None else read_by(values.seconds_of)(delay)
    nacks = [{"receiptHandle": one, "delaySeconds": seconds, "reason": reason} for one in handles]
    _settle(session, topic, group, {"nacks": nacks}, is_result=True)


def consume(
    session: Session,
    topic: Topic,
    group: Group,
    exec_: Exec,
    parallel: Parallel = 1,
    invisible: Invisible = "30s",
    limit: Limit = None,
    until_empty: UntilEmpty = False,
    filter_: Tag = None,
    sql: Sql = None,
    change_filter: ChangeFilter = False,
) -> None:
    """Run a command for every message: exit status 0 acknowledges it, any other gives it back. Extends leases while it runs."""
    if not exec_.strip():
        raise Stop("--exec is empty: give the command to run", WRONG_USE)
    seconds = lease_seconds(invisible)
    worker = Worker(exec_, parallel)
    consumer = Consuming(session, topic, group, worker, seconds)
    wanted = {"filter": filter_body(filter_, sql), "changeFilter": change_filter}
    try:
        consumer.run(wanted, limit, until_empty=until_empty)
    except KeyboardInterrupt:
        worker.stop()
        returned = consumer.give_back()
        session.screen.say(f"done {consumer.done}, given back {consumer.failed + returned}")
        raise
    finally:
        worker.stop()
        consumer.give_back()
    session.screen.say(f"done {consumer.done}, given back {consumer.failed}")
    if consumer.failed:
        words = f"{counted(consumer.failed, 'message')} not done: given back, or delivered again later"
        raise Stop(words, FAILED)


def lease_seconds(text: str) -> int:
    """Read the time of a lease. Raises BadParameter."""
    seconds = read_by(values.seconds_of)(text)
    if not 1 <= seconds <= 43_200:
        raise typer.BadParameter(f"{text!r}: a lease is 1s to 12h")
    return round(seconds)


def _settle(session: Session, topic: str, group: str, body: dict[str, Any], *, is_result: bool) -> None:
    """Settle by handles. Raises Stop if one was not; `is_result`: the command prints the outcome of each."""
    answer = session.post(_path(topic, group, "ack"), body)
    results: list[dict[str, Any]] = answer["results"]
    bad = [one for one in results if one.get("status") not in {"acked", "nacked"}]
    words = f"{len(results) - len(bad)} settled"
    if is_result:
        session.screen.show(answer, lambda: session.screen.line(words))
    else:
        session.screen.say(words)
    if bad:
        known = {
            "leaseExpired": "the lease ended before: the message is delivered again",
            "invalidHandle": "the handle is not of this topic and group",
        }
        why = known.get(bad[0].get("status", ""), bad[0].get("detail"))
        raise Stop(f"{len(bad)} not settled: {why}", FAILED)


def _path(topic: str, group: str, verb: str) -> str:
    return path_of("topics", topic, "groups", group, f"messages:{verb}")
