"""What the person who typed the command sees: progress on stderr, the result on stdout."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def fill_standard_streams() -> None:
    """Have descriptors 0, 1 and 2 lead somewhere: who started us may have closed them.

    Otherwise the next file that is opened takes their place, and what is meant for a terminal goes into it.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - so it is when it was closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as we live
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def say(words: str) -> None:
    """Say something about progress; a terminal that is gone is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"gantry: {words}\n")
        sys.stderr.flush()


def print_state(state: dict[str, Any], *, as_json: bool) -> None:
    """Print where everything is: one JSON line, or lines for people."""
    if as_json:
        lines = [json.dumps(state, separators=(",", ":"))]
    else:
        lines = [
            f"gantry is ready after {state['seconds']} s",
            f"  HTTP        {state['http']}   (calls at {state['http']}/docs)",
            f"  nameserver  {state['nameserver']}",
            *(f"  {one['name']:<11} {one['address']}   in {one['store']}" for one in state["brokers"]),
        ]
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


class Terminal:
    """Is told how a start goes, and shows it here."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def say(self, words: str) -> None:
        """Show progress."""
        say(words)

    def ready(self, state: dict[str, Any]) -> None:
        """Show that it is up, and where."""
        print_state(state, as_json=self._as_json)
