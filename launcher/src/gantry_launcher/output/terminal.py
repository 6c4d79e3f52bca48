"""Output for the user: progress on stderr, the result on stdout."""

import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

from gantry_launcher.errors import OutputLost
from gantry_launcher.output.lines import Lines
from gantry_launcher.output.replica_lines import lines_of

STDOUT, STDERR = 1, 2


def fill_standard_streams() -> None:
    """Open descriptors 0, 1 and 2 when the parent process has closed them.

    Otherwise the next file that is opened takes their place, and output for the terminal goes into it.
    A shell script that starts this process (pyenv's `python3` is one) may already have its own file there, open for reading.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= STDERR:
        os.set_inheritable(descriptor, True)
        descriptor = os.open(os.devnull, os.O_RDWR)
    for stream in (STDOUT, STDERR):
        if fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            os.dup2(descriptor, stream)
    os.close(descriptor)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None when it was closed
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def write_out(text: str) -> None:
    """Write the result of a command. Raises OutputLost when stdout takes no more; a reader that closed the pipe is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        raise OutputLost(f"cannot write the output: {error.strerror}") from error


def say(message: str) -> None:
    """Print progress; ignore a terminal that is gone."""
    _write_error(f"gantry: {message}\n")


def print_state(state: dict[str, Any], *, as_json: bool) -> None:
    """Print the addresses of the system as one JSON line, or as text."""
    _print(_state_text(state, as_json=as_json))


class Terminal:
    """Shows the progress of a start. A stopped terminal (Ctrl-S) delays nothing."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._progress, self._result = Lines("progress", _write_error), Lines("result", _print)

    def say(self, message: str) -> None:
        """Show progress."""
        self._progress.add(f"gantry: {message}\n")

    def ready(self, state: dict[str, Any]) -> None:
        """Show that the system is ready, with its addresses."""
        self._result.add(_state_text(state, as_json=self._as_json))

    def close(self) -> None:
        """Write the last lines, unless the terminal is stopped."""
        self._progress.close()
        self._result.close()


def _state_text(state: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        lines = [json.dumps(state, separators=(",", ":"))]
    else:
        lines = [
            f"gantry is ready after {state['seconds']} s",
            f"  HTTP        {state['http']}   (calls at {state['http']}/docs)",
            *([f"  gRPC        {state['grpc']}"] if state["grpc"] else []),
            f"  nameserver  {state['nameserver']}",
            *(f"  {one['name']:<11} {one['address']}   in {one['store']}" for one in state["brokers"]),
            *(f"  {line}" for broker in state["brokers"] for line in lines_of(broker)),
        ]
    return "\n".join(lines) + "\n"


def _write_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        _drop_output()
    except ValueError:  # it is closed
        return


def _drop_output() -> None:
    """Discard buffered output: the interpreter would try to write it at exit, and report the error."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
