"""`gantrymq access …`: users, policies and tokens, what is decided about a user, and the token of this machine's user."""

import typer

from gantrymq.cli.commands.access import asking, login, policies, resealing, tokens, users
from gantrymq.cli.commands.dev_certs import add_dev_certs


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    access = typer.Typer(
        help="Access control: users, policies, tokens, explain, whoami, login, logout, reseal, dev-certs. ./gantry access init switches it on.",
        no_args_is_help=True,
    )
    app.add_typer(access, name="access")
    for part in (users, policies, tokens, asking, login, resealing):
        part.add_to(access)
    add_dev_certs(access)
