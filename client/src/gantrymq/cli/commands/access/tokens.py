"""`gantrymq access tokens …`: list, create, revoke."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.access.scopes import scope_of, scope_words
from gantrymq.cli.commands.access.users import pages_of
from gantrymq.cli.options import read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.values import instant_of

TokenId = Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as `tokens list` shows it.")]

SECONDS_MAX = 366 * 86_400
"""The longest life of a token, as the gateway has it."""


def lifetime_of(text: str, now: datetime | None = None) -> int:
    """Read an end as seconds from now, which the gateway counts on its own clock."""
    start = now or datetime.now(UTC)
    seconds = round((datetime.fromisoformat(instant_of(text, start)) - start).total_seconds())
    if seconds < 1:
        raise ValueError(f"{text!r} is not in the future")
    if seconds > SECONDS_MAX:
        raise ValueError(f"{text!r}: a token lasts at most {SECONDS_MAX // 86_400} days")
    return seconds


Lifetime = Annotated[
    int | None,
    typer.Option(
        "--expires",
        metavar="TIME",
        parser=read_by(lifetime_of),
        help="When it ends: 2026-12-31, +90d; at most 366 days. Default: after 30 days.",
    ),
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="USER", help="The token's user.")]
Mine = Annotated[bool, typer.Option("--mine", help="Only your own: needs no right, as those of others do.")]
Scope = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="'ACTIONS RESOURCE'",
        help="Only for this, as 'Pub,Sub Topic:orders'; repeatable. Default: all of the user's rights.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    tokens = typer.Typer(help="Tokens for HTTP: list, create, revoke.", no_args_is_help=True)
    app.add_typer(tokens, name="tokens")
    lists = "gantrymq access tokens list --mine\ngantrymq access tokens list --user shop"
    command(tokens, "list", lists)(list_tokens)
    creates = "gantrymq access tokens create --expires +30d\ngantrymq access tokens create --user shop --scope 'Pub Topic:orders' --expires +1d"
    command(tokens, "create", creates)(create)
    command(tokens, "revoke", "gantrymq access tokens revoke t-4711")(revoke)


def list_tokens(session: Session, user: UserOption = None, mine: Mine = False) -> None:
    """List the tokens; their text is never shown."""
    if mine and user is not None:
        raise typer.BadParameter("give --mine or --user: one of the two")
    owner = _who_asks(session) if mine else user
    found = pages_of(session, "tokens", user=owner)
    rows = [
        (one["id"], one["user"], scope_words(one["scope"]), one["createdAt"], one["expiresAt"])
        for one in found["tokens"]
    ]
    columns = ("token", "user", "scope", "created", "expires")
    session.screen.show(found, lambda: session.screen.table(columns, rows, "no tokens"))


def create(session: Session, user: UserOption = None, scope: Scope = None, expires: Lifetime = None) -> None:
    """Create a token, for you or for another user; it is shown once."""
    answer = new_token(session, user, scope or [], expires)
    details = answer["details"]
    words = f"token {answer['token']} (shown only now), id {details['id']}, until {details['expiresAt']}"
    session.screen.show(answer, lambda: session.screen.line(words))


def revoke(session: Session, token_id: TokenId) -> None:
    """End a token now."""
    answer = session.calls.call("DELETE", path_of("tokens", token_id))
    session.screen.show({"id": token_id, **answer}, lambda: session.screen.line(f"revoked token {token_id}"))


def new_token(session: Session, user: str | None, scope: list[str], seconds: int | None) -> dict[str, Any]:
    """Make a token, for the caller if no user is given, and return the gateway's answer. Raises BadParameter, Stop."""
    try:
        parts = [scope_of(one) for one in scope]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    owner = _who_asks(session) if user is None else user
    given = {"user": owner, "scope": parts or None, "expiresInSeconds": seconds}
    made: dict[str, Any] = session.post(
        path_of("tokens"), {name: value for name, value in given.items() if value is not None}
    )
    return made


def _who_asks(session: Session) -> str:
    user: str = session.get(path_of("access:whoami"))["user"]
    return user
