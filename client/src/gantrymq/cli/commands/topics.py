"""`gantrymq topic …`: list, show, create, set, delete."""

from typing import Annotated, Any, Literal

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.options import Topic, Yes
from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import counted
from gantrymq.cli.stops import FAILED, NOT_FOUND, WRONG_USE, Stop

QUEUES_MAX = 1024
Queues = Annotated[
    int | None,
    typer.Option("--queues", min=1, max=QUEUES_MAX, help="Queues per broker, to read and to write."),
]
ReadQueues = Annotated[
    int | None, typer.Option("--read-queues", min=1, max=QUEUES_MAX, help="Queues to read, per broker.")
]
WriteQueues = Annotated[
    int | None, typer.Option("--write-queues", min=1, max=QUEUES_MAX, help="Queues to write, per broker.")
]
Perm = Annotated[
    Literal["rw", "r", "w"] | None, typer.Option("--perm", help="Whether it may be read and written.")
]
MessageType = Annotated[
    Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"] | None,
    typer.Option(
        "--message-type", help="What it takes from RocketMQ 5 clients. PRIORITY: a queue for each priority."
    ),
]
System = Annotated[
    bool, typer.Option("--system", help="Include topics of the system, for retries and for dead letters.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    topic = typer.Typer(help="Topics: list, show, create, set, delete.", no_args_is_help=True)
    app.add_typer(topic, name="topic")
    command(topic, "list", "gantrymq topic list\ngantrymq topic list --system --json")(list_topics)
    command(topic, "show", "gantrymq topic show orders")(show)
    command(topic, "create", "gantrymq topic create orders\ngantrymq topic create orders --queues 16")(create)
    command(topic, "set", "gantrymq topic set orders --queues 32\ngantrymq topic set orders --perm r")(change)
    command(topic, "delete", "gantrymq topic delete orders --yes")(delete)


def list_topics(session: Session, system: System = False) -> None:
    """List the topics."""
    found = session.get(path_of("topics"), system=system or None)
    session.warn_away("topics", is_empty=not found["topics"])
    rows = [
        (one["topic"], one["perm"], one["readQueues"], one["writeQueues"], one["brokers"])
        for one in found["topics"]
    ]
    session.screen.show(
        found,
        lambda: session.screen.table(
            ("topic", "perm", "read queues>", "write queues>", "brokers"),
            rows,
            "no topics yet: gantrymq topic create NAME",
        ),
    )


def show(session: Session, topic: Topic) -> None:
    """Show a topic with the offsets of its queues."""
    found = session.get(path_of("topics", topic))

    def people() -> None:
        counts = [
            f"{one['broker']}: {one['readQueues']} to read, {one['writeQueues']} to write"
            for one in found["brokers"]
        ]
        messages = sum(one["maxOffset"] - one["minOffset"] for one in found["queues"])
        session.screen.fields(
            [
                ("topic", topic),
                ("perm", found["perm"]),
                ("message type", found["messageType"] or "any"),
                ("queues", "; ".join(counts)),
                ("messages", messages),
            ]
        )
        session.screen.line("")
        rows = [
            (
                one["broker"],
                one["queueId"],
                one["minOffset"],
                one["maxOffset"],
                one["maxOffset"] - one["minOffset"],
            )
            for one in found["queues"]
        ]
        session.screen.table(("broker", "queue>", "first>", "next>", "messages>"), rows)
        session.warn_missing(found["missing"])

    session.screen.show(found, people)


def create(
    session: Session,
    topic: Topic,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    message_type: MessageType = None,
) -> None:
    """Create a topic on every broker; an existing topic is refused."""
    if _settings(session, topic) is not None:
        raise Stop(f"topic {topic} exists already; gantrymq topic set {topic} changes it", FAILED)
    _put(
        session,
        topic,
        {"readQueues": 8, "writeQueues": 8, "perm": "rw"}
        | _given(queues, read_queues, write_queues, perm, message_type),
        "created",
    )


def change(
    session: Session,
    topic: Topic,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    message_type: MessageType = None,
) -> None:
    """Change a topic on every broker; other settings stay."""
    given = _given(queues, read_queues, write_queues, perm, message_type)
    if not given:
        raise Stop(
            "nothing to change: give --queues, --read-queues, --write-queues, --perm or --message-type",
            WRONG_USE,
        )
    held = _settings(session, topic)
    if held is None:
        raise Stop(f"topic {topic} does not exist; gantrymq topic create {topic} creates it", NOT_FOUND)
    _put(session, topic, held | given, "changed")


def delete(session: Session, topic: Topic, yes: Yes = False) -> None:
    """Delete a topic with its messages and its groups' offsets, everywhere."""
    session.confirm(f"Delete topic {topic} with all its messages?", is_sure=yes)
    answer = session.calls.call("DELETE", path_of("topics", topic))
    session.screen.show({"topic": topic, **answer}, lambda: session.screen.line(f"deleted topic {topic}"))


def _settings(session: Session, topic: str) -> dict[str, Any] | None:
    """Return a topic's settings: the largest counts of any broker, as in the list. None if there is no such topic."""
    for one in session.get(path_of("topics"), system=True)["topics"]:
        if one["topic"] == topic:
            perm = "rw" if one["perm"] == "none" else one["perm"]
            return {
                "readQueues": max(1, one["readQueues"]),
                "writeQueues": max(1, one["writeQueues"]),
                "perm": perm,
                "messageType": one["messageType"],
            }
    return None


def _given(
    queues: int | None, read: int | None, write: int | None, perm: str | None, message_type: str | None
) -> dict[str, Any]:
    if queues is not None and (read is not None or write is not None):
        raise typer.BadParameter("give --queues, or --read-queues and --write-queues")
    both = {
        "readQueues": queues if queues is not None else read,
        "writeQueues": queues if queues is not None else write,
        "perm": perm,
        "messageType": message_type,
    }
    return {name: value for name, value in both.items() if value is not None}


def _put(session: Session, topic: str, settings: dict[str, Any], done: str) -> None:
    answer = session.put(path_of("topics", topic), settings)
    read = counted(answer["readQueues"], "queue")
    counts = f"{read} to read and {answer['writeQueues']} to write on each of {', '.join(answer['brokers'])}"
    session.screen.show(
        answer, lambda: session.screen.line(f"{done} topic {topic}: {counts}, {answer['perm']}")
    )
