"""`gantrymq access reseal`: the second step of replacing the cluster's key."""

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.options import DryRun
from gantrymq.cli.session import Session, command


def add_to(access: typer.Typer) -> None:
    """Add the command."""
    command(access, "reseal", "gantrymq access reseal --dry-run\ngantrymq access reseal")(reseal)


def reseal(session: Session, dry_run: DryRun = False) -> None:
    """Seal every secret with the cluster's current key that an old one sealed; then the old key may leave the key file."""
    answer = session.post(path_of("access:reseal"), {"dryRun": dry_run})
    users, unopened = answer["users"], answer["unopened"]
    done = "have secrets of an old key" if dry_run else "have their secrets sealed with the current key now"
    words = f"{', '.join(users)} {done}" if users else "the current key sealed every secret that opens"
    session.screen.show(answer, lambda: session.screen.line(words))
    for one in unopened:
        session.screen.say(f"no secret of {one['user']} was changed: {one['reason']}")
