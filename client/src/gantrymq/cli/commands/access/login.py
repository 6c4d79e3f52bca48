"""`gantrymq access login` and `logout`: keep a token for a gateway, so that later commands need no secret."""

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.access.tokens import Lifetime, new_token
from gantrymq.cli.credentials import Kept, credentials_file, keep_token, kept_tokens
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import NOT_FOUND, WRONG_USE, Stop

_MISSING = "name the user with --access-key; its secret is that of --secret-file or GANTRY_SECRET_KEY, else it is asked for"


def add_to(access: typer.Typer) -> None:
    """Add the commands."""
    command(
        access,
        "login",
        "gantrymq access login --access-key admin\ngantrymq access login --access-key admin --expires +1d",
    )(login)
    command(access, "logout", "gantrymq access logout")(logout)


def login(session: Session, expires: Lifetime = None) -> None:
    """Make a token for a user, and keep it for this gateway."""
    if not session.calls.headers:
        raise Stop(_MISSING, WRONG_USE)
    answer = new_token(session, None, [], expires)
    details = answer["details"]
    keep_token(credentials_file(), session.calls.base, Kept(answer["token"], details["id"]))
    words = (
        f"logged in as {details['user']} until {details['expiresAt']}; {credentials_file()} keeps the token"
    )
    session.screen.show(details, lambda: session.screen.line(words))


def logout(session: Session) -> None:
    """Forget the kept token of this gateway, and revoke it."""
    path, base = credentials_file(), session.calls.base
    kept = kept_tokens(path).get(base)
    if kept is None:
        raise Stop(f"{path} has no token for {base}", NOT_FOUND)
    keep_token(path, base, None)
    session.calls.headers = {"authorization": f"Bearer {kept.token}"}
    session.calls.call("DELETE", path_of("tokens", kept.id))
    session.screen.show(
        {"id": kept.id}, lambda: session.screen.line(f"logged out; token {kept.id} is revoked")
    )
