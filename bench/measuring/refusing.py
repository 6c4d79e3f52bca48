"""Refusals of the benchmarks: one line that says what to do, and status 2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn


def refuse(words: str) -> NoReturn:
    """End the program: the request cannot be carried out."""
    sys.stderr.write(f"gantry: bench: {words}\n")
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Refuses with a line instead of a page."""

    def error(self, message: str) -> NoReturn:
        refuse(f"{message} (see {self.prog} --help)")


def folder(words: str) -> Path:
    """Return a writable folder, created if needed. Raises argparse.ArgumentTypeError."""
    try:
        if not words:
            raise FileNotFoundError(2, "it has no name")
        Path(words).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{words!r}: {error.strerror}; name a writable folder") from error
    return Path(words)
