"""`gantrymq txn …`: undecided transactions."""

from typing import Annotated, Any, Literal

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.options import BrokerOption, TopicOption
from gantrymq.cli.session import Session, command

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of transactions.")]
ProducerGroup = Annotated[str | None, typer.Option("--producer-group", help="Only of this group.")]
State = Annotated[
    Literal["open", "parked"] | None,
    typer.Option("--state", help="Only open ones, or those parked after unanswered checks."),
]
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=1000, help="The most to show.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Kept in the audit record.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    txn = typer.Typer(help="Transactions: list, commit, rollback.", no_args_is_help=True)
    app.add_typer(txn, name="txn")
    command(txn, "list", "gantrymq txn list\ngantrymq txn list --state parked")(list_transactions)
    command(
        txn, "commit", "gantrymq txn commit broker-a.7F0000010CF77F6DE72A69BBC7760001 --reason 'paid by hand'"
    )(commit)
    command(txn, "rollback", "gantrymq txn rollback broker-a.7F0000010CF77F6DE72A69BBC7760001")(rollback)


def list_transactions(
    session: Session,
    topic: TopicOption = None,
    producer_group: ProducerGroup = None,
    broker: BrokerOption = None,
    state: State = None,
    count: Count = 100,
) -> None:
    """List undecided transactions, oldest first."""
    found = session.get(
        path_of("transactions"),
        topic=topic,
        producerGroup=producer_group,
        broker=broker,
        state=state,
        max=count,
    )
    rows = [
        (
            one["transactionId"],
            one["state"],
            one["topic"],
            one["producerGroup"],
            one["begunTimestamp"],
            one["checks"],
        )
        for one in found["transactions"]
    ]

    def people() -> None:
        session.screen.table(
            ("transaction", "state", "topic", "producers", "begun", "checks>"),
            rows,
            "no undecided transactions",
        )
        if found["truncated"]:
            session.screen.say(f"there are more than {count}: give a larger --max")
        session.warn_missing(found["missing"])

    session.screen.show(found, people)


def commit(session: Session, ids: Ids, reason: Reason = None) -> None:
    """Commit transactions: their messages are delivered."""
    _decide(session, ids, "commit", reason)


def rollback(session: Session, ids: Ids, reason: Reason = None) -> None:
    """Roll transactions back: their messages are never delivered."""
    _decide(session, ids, "rollback", reason)


def _decide(session: Session, ids: list[str], verb: str, reason: str | None) -> None:
    body: dict[str, Any] = {} if reason is None else {"reason": reason}
    for transaction in ids:
        done = session.post(path_of("transactions", f"{transaction}:{verb}"), body)
        words = f"{'committed' if verb == 'commit' else 'rolled back'} {transaction} ({done['topic']})"
        session.screen.show(done, lambda words=words: session.screen.line(words))
