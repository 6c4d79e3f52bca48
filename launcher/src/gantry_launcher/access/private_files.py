"""Files that only their user may read."""

import os
from pathlib import Path

from gantry_launcher.errors import Refused


def write_private(path: Path, text: str) -> None:
    """Put a new file (0600) in place of the one that is there: that one may be open for others. Raises Refused.

    A missing folder is created with mode 0700.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)  # of a run that was killed
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror or error}") from error
