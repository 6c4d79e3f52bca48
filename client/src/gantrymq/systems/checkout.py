"""The checkout of Gantry that can start systems, and its launcher's report of a running one. Starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class SystemFailed(RuntimeError):
    """The system could not be started or queried; contains the launcher's message."""


def launcher() -> Path:
    """Return the launcher of the checkout that GANTRY_HOME names, else of the one that contains this file. Raises SystemFailed."""
    home = os.environ.get("GANTRY_HOME")
    found = (Path(home) if home else Path(__file__).resolve().parents[4]) / "gantry"
    if found.is_file():
        return found
    words = f"GANTRY_HOME is {home}, and there is" if home else "this Gantry is not in a checkout: there is"
    ways = "set GANTRY_HOME to the folder of a checkout of Gantry"
    raise SystemFailed(
        f"{words} no launcher {found}; {ways}, or give your clients the addresses of a running system"
    )


def status_of(data: Path) -> dict[str, Any]:
    """Return the output of `./gantry status --json` for the system on a data directory. Raises SystemFailed if none runs."""
    command = [sys.executable, str(launcher()), "status", "--json", "--data", str(data)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - the launcher
    if ran.returncode != 0:
        raise SystemFailed(ran.stderr.strip() or f"nothing runs with the data directory {data}")
    state: dict[str, Any] = json.loads(ran.stdout)
    return state
