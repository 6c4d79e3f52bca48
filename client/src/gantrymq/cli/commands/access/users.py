"""`gantrymq access users …`: list, show, create, set, rotate, delete."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.credentials import read_secret
from gantrymq.cli.options import Yes, read_by
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import WRONG_USE, Stop
from gantrymq.cli.values import instant_of

NEVER = "never"
PAGE_MAX = 1000
"""Most elements of a page, as the gateway has it."""
User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user: its access key.")]
Kind = Annotated[
    Literal["Normal", "Super"] | None,
    typer.Option("--type", help="Normal: what its policies allow. Super: everything."),
]
NewSecretOrGenerated = Annotated[
    Path | None,
    typer.Option(
        "--new-secret-file",
        metavar="FILE",
        help="File with the user's secret, - is standard input; default: one is generated and shown once.",
    ),
]
NewSecret = Annotated[
    Path | None,
    typer.Option(
        "--new-secret-file",
        metavar="FILE",
        help="File with the one secret that the user has from now on; - is standard input.",
    ),
]
Status = Annotated[
    bool | None,
    typer.Option("--enable/--disable", help="A disabled user keeps its policies and may do nothing."),
]


def expiry_of(text: str) -> str:
    """Read an end: a time, or `never`."""
    return NEVER if text.strip() == NEVER else instant_of(text)


Expires = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="TIME", parser=read_by(expiry_of), help="When it ends: 2026-12-31, +90d, never."
    ),
]
DropOld = Annotated[
    bool, typer.Option("--drop-old-secret", help="End a rotation: only the newest secret stays valid.")
]
Filter = Annotated[str, typer.Option("--filter", metavar="TEXT", help="Only names that contain this text.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    users = typer.Typer(help="Users: list, show, create, set, rotate, delete.", no_args_is_help=True)
    app.add_typer(users, name="users")
    command(users, "list", "gantrymq access users list")(list_users)
    command(users, "show", "gantrymq access users show shop")(show)
    command(
        users, "create", "gantrymq access users create shop\ngantrymq access users create root --type Super"
    )(create)
    command(
        users,
        "set",
        "gantrymq access users set shop --disable\ngantrymq access users set shop --expires +90d\ngantrymq access users set shop --drop-old-secret",
    )(change)
    rotates = "gantrymq access users rotate shop\ngantrymq access users rotate shop --new-secret-file secret"
    command(users, "rotate", rotates)(rotate)
    command(users, "delete", "gantrymq access users delete shop --yes")(delete)


def list_users(session: Session, text: Filter = "") -> None:
    """List the users."""
    found = pages_of(session, "users", text=text)
    rows = [
        (one["user"], one["type"], one["status"], one["secrets"], one["expiresAt"]) for one in found["users"]
    ]
    columns = ("user", "type", "status", "secrets>", "expires")
    session.screen.show(
        found, lambda: session.screen.table(columns, rows, "no users yet: gantrymq access users create NAME")
    )


def show(session: Session, user: User) -> None:
    """Show a user; its secrets are never shown."""
    [found] = session.get(path_of("users", user))["users"]
    names = ("user", "type", "status", "secrets", "expiresAt")
    session.screen.show(found, lambda: session.screen.fields([(name, found.get(name)) for name in names]))


def create(
    session: Session,
    user: User,
    kind: Kind = None,
    new_secret: NewSecretOrGenerated = None,
    expires: Expires = None,
) -> None:
    """Create a user; a generated secret is shown once."""
    ends = {} if expires in {None, NEVER} else {"expiresAt": expires}
    answer = session.post(path_of("users"), {"user": user, **_kind(kind), **_secret(new_secret), **ends})
    _show_secret(session, answer, f"created user {user}")


def change(
    session: Session,
    user: User,
    kind: Kind = None,
    enabled: Status = None,
    expires: Expires = None,
    new_secret: NewSecret = None,
    drop_old: DropOld = False,
) -> None:
    """Change a user's type, status, end or secrets; other parts stay."""
    given = _kind(kind) | _secret(new_secret) | change_of(enabled, expires, drop_old=drop_old)
    if not given:
        words = "--type, --enable, --disable, --expires, --new-secret-file or --drop-old-secret"
        raise Stop(f"nothing to change: give {words}", WRONG_USE)
    answer = session.calls.call("PATCH", path_of("users", user), given)
    session.screen.show(answer, lambda: session.screen.line(f"changed user {user}"))


def rotate(session: Session, user: User, new_secret: NewSecretOrGenerated = None) -> None:
    """Give a user a second secret; both are valid until `users set USER --drop-old-secret`."""
    answer = session.post(path_of("users", f"{user}:rotate"), _secret(new_secret))
    _show_secret(session, answer, f"user {user} has a second secret")


def delete(session: Session, user: User, yes: Yes = False) -> None:
    """Delete a user with its policies and tokens."""
    session.confirm(f"Delete user {user} with its policies and tokens?", is_sure=yes)
    answer = session.calls.call("DELETE", path_of("users", user))
    session.screen.show({"user": user, **answer}, lambda: session.screen.line(f"deleted user {user}"))


def pages_of(session: Session, kind: str, *, text: str = "", user: str | None = None) -> dict[str, list[Any]]:
    """Return all pages of a list as one: of names that contain `text`, or of a user."""
    found: list[Any] = []
    after: str | None = ""
    while after is not None:
        page = session.get(path_of(kind), max=PAGE_MAX, after=after, filter=text, user=user)
        found += page[kind]
        after = page["next"]
    return {kind: found}


def change_of(enabled: bool | None, expires: str | None, *, drop_old: bool) -> dict[str, Any]:
    """Return the given changes in the gateway's form."""
    body: dict[str, Any] = {} if enabled is None else {"status": "enable" if enabled else "disable"}
    if expires is not None:
        body |= {"neverExpires": True} if expires == NEVER else {"expiresAt": expires}
    return body | ({"dropOldSecret": True} if drop_old else {})


def _kind(kind: str | None) -> dict[str, Any]:
    return {} if kind is None else {"type": kind}


def _secret(path: Path | None) -> dict[str, Any]:
    return {} if path is None else {"secret": read_secret(path)}


def _show_secret(session: Session, answer: Any, done: str) -> None:
    """Show what was done, and a generated secret: nothing shows it a second time."""
    secret = answer.get("secret")
    words = done if secret is None else f"{done}; secret {secret} (shown only now)"
    session.screen.show(answer, lambda: session.screen.line(words))
