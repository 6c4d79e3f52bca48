"""Files and directories that no other user of the machine may read; and secrets that come in such files."""

import os
import stat
from pathlib import Path

from gantry_chassis.logs import get_logger

OTHERS = 0o077
"""The permissions of everybody but the owner."""

_log = get_logger()


def make_private() -> None:
    """Have whatever this process makes from now on belong to its user alone."""
    os.umask(OTHERS)


def private_directory(path: Path) -> None:
    """Make a directory, or take from one that is there what others may do with it. Raises OSError where it cannot be made."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS:
        return
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        _log.warning(
            "others may look into this directory, and it cannot be changed: it belongs to another user",
            directory=str(path),
            mode=f"{mode:04o}",
            error=error.strerror,
        )
    else:
        _log.info(
            "others could look into this directory; now its owner alone can",
            directory=str(path),
            mode=f"{mode & ~OTHERS:04o}",
            before=f"{mode:04o}",
        )


def read_secret(path: str) -> str:
    """Return the secret a file holds, without the blanks and line ends around it; empty when no file is named. Raises OSError."""
    return Path(path).read_text(encoding="utf-8").strip() if path else ""
