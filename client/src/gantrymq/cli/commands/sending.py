"""`gantrymq send`: sends an argument, a file, or standard input as a whole or line by line."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.options import Topic, read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import counted
from gantrymq.cli.stops import FAILED, NOT_FOUND, WRONG_USE, Stop
from gantrymq.formats.json_bodies import body_fields

READ_BYTES = 65_536
BATCH_MAX = 200
"""Lines sent with one call. Without --queue and --sharding-key they go to one queue, those of the next call to the next."""
NAMED_QUEUES_MAX = 8
"""`send --lines` names up to this many queues at its end, and counts more."""
EXAMPLES = """
gantrymq send orders 'one coffee'
gantrymq send orders 'one tea' --tag counter --key o-2 --property size=2
gantrymq send orders 'in a while' --delay 10m
gantrymq send orders --file picture.png
tail -f app.log | gantrymq send logs --lines
"""
Body = Annotated[str | None, typer.Argument(metavar="BODY", help="The body; default: standard input.")]
File = Annotated[Path | None, typer.Option("--file", metavar="PATH", help="Send the bytes of this file.")]
Lines = Annotated[
    bool,
    typer.Option(
        "--lines",
        help=f"Send every line of standard input as a message; up to {BATCH_MAX} lines that arrive together go to one queue, in order.",
    ),
]
TagOption = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Consumers filter by it.")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY", help="A key to find the message by; may be repeated."),
]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated.")
]
Sharding = Annotated[
    str | None, typer.Option("--sharding-key", metavar="KEY", help="Same key, same queue, in order.")
]
QueueOption = Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Send to this queue.")]
Idempotency = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="KEY", help="A repeat with this key is stored once."),
]
Level = Annotated[
    int | None,
    typer.Option(
        "--delay-level", min=0, max=18, metavar="N", help="Delay by this level of the broker's list."
    ),
]
Delay = Annotated[
    str | None, typer.Option("--delay", metavar="DURATION", help="Delay by this time: 500ms, 10m, 2d.")
]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", parser=read_by(values.instant_of), help="Then: 2026-01-31T12:00:00Z, +10m."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "send", EXAMPLES)(send)


def send(
    session: Session,
    topic: Topic,
    body: Body = None,
    file: File = None,
    lines: Lines = False,
    tag: TagOption = None,
    key: Keys = None,
    property_: Properties = None,
    sharding_key: Sharding = None,
    queue: QueueOption = None,
    idempotency_key: Idempotency = None,
    delay: Delay = None,
    delay_level: Level = None,
    at: At = None,
) -> None:
    """Send a message: BODY, a file, or standard input."""
    if sum((body is not None, file is not None, lines)) > 1:
        raise Stop("give one body: BODY, --file or --lines", WRONG_USE)
    if sum((delay is not None, delay_level is not None, at is not None)) > 1:
        raise Stop("give one of --delay, --delay-level and --at", WRONG_USE)
    broker, queue_id = read_by(values.queue_of)(queue) if queue is not None else (None, None)
    fields = {
        "tag": tag, "keys": key or None, "properties": _properties(property_ or []) or None,
        "shardingKey": sharding_key, "broker": broker, "queueId": queue_id, "idempotencyKey": idempotency_key,
        "delayMs": None if delay is None else read_by(values.milliseconds_of)(delay), "delayLevel": delay_level, "deliverAt": at,
    }  # fmt: skip
    named = {name: value for name, value in fields.items() if value is not None}
    path = path_of("topics", topic, "messages")
    if lines:
        if idempotency_key is not None:
            raise Stop("--idempotency-key names one message, and --lines sends many", WRONG_USE)
        _send_lines(session, path, named)
        return
    _show(session, session.post(path, {"messages": [{**named, **_body(body, file)}]}))


def _body(words: str | None, file: Path | None) -> dict[str, str]:
    """Return the body of the message, as text if it is text."""
    if words is not None:
        return body_fields(os.fsencode(words))  # the argument keeps bytes that are not UTF-8
    if file is not None:
        try:
            return body_fields(file.read_bytes())
        except OSError as error:
            raise Stop(f"cannot read {file}: {error.strerror or error}", NOT_FOUND) from error
    if sys.stdin.isatty():
        raise Stop("no body: give it as an argument, with --file, or on standard input", WRONG_USE)
    if not (data := sys.stdin.buffer.read()):
        raise Stop(
            "standard input is empty, nothing was sent; write '' for a message without a body", WRONG_USE
        )
    return body_fields(data)


def _properties(given: list[str]) -> dict[str, str]:
    try:
        return values.pairs_of(given, "property")
    except ValueError as error:
        raise Stop(f"--property: {error}", WRONG_USE) from None


def _send_lines(session: Session, path: str, fields: dict[str, Any]) -> None:
    """Send line by line: lines that are already there go together, a single line goes at once."""
    sent, queues = 0, set[str]()
    for batch in batches(lambda: os.read(sys.stdin.fileno(), READ_BYTES)):
        answer = session.post(path, {"messages": [{**fields, **body_fields(line)} for line in batch]})
        for result in answer["results"]:
            if result.get("status") != "SEND_OK":
                raise Stop(f"{sent} sent, then: {result['detail']}", FAILED)
            sent += 1
            queues.add(f"{result['broker']}:{result['queueId']}")
            if session.screen.as_json:
                session.screen.json(result)
    where = f" into {', '.join(sorted(queues))}" if 0 < len(queues) <= NAMED_QUEUES_MAX else ""
    where = where or (f" into {len(queues)} queues" if queues else "")
    session.screen.say(f"sent {counted(sent, 'message')}{where}")


def batches(read: Callable[[], bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their ends, at most BATCH_MAX together. `read` returns the available bytes, b"" at the end."""
    part = b""
    while data := read():
        *lines, part = (part + data).split(b"\n")
        for first in range(0, len(lines), BATCH_MAX):
            yield [line.rstrip(b"\r") for line in lines[first : first + BATCH_MAX]]
    if part:
        yield [part]


def _show(session: Session, answer: dict[str, Any]) -> None:
    result = answer["results"][0]
    place = f"{result['broker']}:{result['queueId']}"
    offset = result["queueOffset"]
    where = (
        f"{place} at offset {offset}"
        if offset is not None
        else f"{place}, delivered at {result.get('deliverAt')}"
    )
    words = f"stored {result['messageId']} in {where} ({result['durability']})"
    if result.get("duplicate"):
        words = f"stored before: {result['messageId']} in {where}"
    session.screen.show(result, lambda: session.screen.line(words))
