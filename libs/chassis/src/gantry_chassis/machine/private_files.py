"""Creates files and directories only their owner can read, and reads secrets from files."""

import os
import stat
from pathlib import Path

from gantry_chassis.logs.structured import get_logger

OTHERS = 0o077
"""The permissions of group and others."""

_log = get_logger()


def make_private() -> None:
    """Make all files this process creates private to its user."""
    os.umask(OTHERS)


def private_directory(path: Path) -> None:
    """Create a directory, or remove the permissions of others from an existing one.

    Raises OSError when it cannot be created.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS:
        return
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        _log.warning(
            "other users can read this directory, and it cannot be closed: it belongs to another user",
            directory=str(path),
            mode=f"{mode:04o}",
            error=error.strerror,
        )
    else:
        _log.info(
            "other users could read this directory; now only its owner can",
            directory=str(path),
            mode=f"{mode & ~OTHERS:04o}",
            before=f"{mode:04o}",
        )


def warn_if_readable(path: str, what: str) -> bool:
    """Return whether group or others may read a secret's file, and warn in the log then. Does nothing for one that is not there.

    A warning and no refusal: systems for containers hand keys to a service with 0440 or 0644, in a folder that nobody else reaches.
    """
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
    except OSError:
        return False
    if not mode & OTHERS:
        return False
    _log.warning(f"other users can read {what}", file=path, mode=f"{mode:04o}", fix=f"chmod 600 {path}")
    return True


def read_secret(path: str) -> str:
    """Return the secret in a file without surrounding whitespace; empty when no file is named. Raises OSError."""
    return Path(path).read_text(encoding="utf-8").strip() if path else ""
