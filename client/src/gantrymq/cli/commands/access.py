"""`gantrymq access …`: what belongs to access control and TLS."""

import typer

from gantrymq.cli.commands.dev_certs import add_dev_certs


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    access = typer.Typer(help="Access control and TLS: dev-certs.", no_args_is_help=True)
    app.add_typer(access, name="access")
    add_dev_certs(access)
