"""The `gantrymq` command: sends, reads and manages messages of a running system over the gateway's HTTP API. Only `doctor` uses remoting."""

import fcntl
import os
import sys
from pathlib import Path

STDOUT, STDERR = 1, 2


def run() -> int:
    """Run the command line of this process and return its exit status: the entry point of an installed `gantrymq`."""
    _fill_standard_streams()
    try:
        from gantrymq.cli.main import main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"gantrymq: {error.name} is missing: pip install 'gantrymq[cli]'\n")
        return 1
    return main(sys.argv[1:])


def _fill_standard_streams() -> None:
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
