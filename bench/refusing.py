"""Refusals of the benchmarks' own words: one line that says what to do, and status 2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn


def refuse(words: str) -> NoReturn:
    """End the program: it was asked for what cannot be done."""
    sys.stderr.write(f"gantry: bench: {words}\n")
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    """Refuses in a line instead of a page."""

    def error(self, message: str) -> NoReturn:
        refuse(f"{message} (see {self.prog} --help)")


def folder(words: str) -> Path:
    """Return a folder that can be written, made if need be. Raises argparse.ArgumentTypeError."""
    try:
        if not words:
            raise FileNotFoundError(2, "it has no name")
        Path(words).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{words!r}: {error.strerror}; name a folder that can be written"
        ) from error
    return Path(words)
