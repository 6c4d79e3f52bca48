"""`gantrymq access explain` and `whoami`."""

from typing import Annotated, Any, Literal

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.access.scopes import scope_words
from gantrymq.cli.commands.access.users import User
from gantrymq.cli.session import Session, command

ActionName = Annotated[
    Literal["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"],
    typer.Argument(metavar="ACTION", help="Pub, Sub, Create, Update, Delete, Get or List."),
]
ResourceName = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE", help="Topic:orders, Group:billing, Cluster:DefaultCluster, 'Topic:*'."
    ),
]
Source = Annotated[
    str | None, typer.Option("--from", metavar="IP", help="Address that the request comes from.")
]


def add_to(access: typer.Typer) -> None:
    """Add the commands."""
    examples = "gantrymq access explain shop Pub Topic:orders\ngantrymq access explain shop Sub Group:billing --from 10.0.0.5"
    command(access, "explain", examples)(explain)
    command(access, "whoami", "gantrymq access whoami")(whoami)


def explain(
    session: Session, user: User, action: ActionName, resource: ResourceName, source: Source = None
) -> None:
    """Show whether a user may do something, and which entry decides."""
    body: dict[str, Any] = {"user": user, "actions": [action], "resource": resource}
    answer = session.post(path_of("access:explain"), body | ({"from": source} if source else {}))
    session.screen.show(answer, lambda: session.screen.line(answer["text"].rstrip("\n")))


def whoami(session: Session) -> None:
    """Show the user that your credentials belong to."""
    answer = session.get(path_of("access:whoami"))
    shown = {**answer, "scope": scope_words(answer["scope"]) if answer["scope"] else None}
    pairs = [(name, shown[name]) for name in ("user", "type", "way", "tokenId", "scope", "endsAt", "address")]
    session.screen.show(
        answer, lambda: session.screen.fields([pair for pair in pairs if pair[1] is not None])
    )
