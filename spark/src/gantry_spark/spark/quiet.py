"""Hides the stderr output of Java and Spark's Python processes from the user's progress, and shows it after a failure."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from types import TracebackType
from typing import IO, Final, Self, TextIO

_SHOWN_BYTES_MAX: Final = 20_000


class Quiet:
    """Redirects descriptor 2 to a file; `sys.stderr` still reaches the user.

    Spark's workers print tracebacks of broken pipes when a query has enough rows: they mean nothing, and no setting disables them.
    """

    def __init__(self, *foreseen: type[Exception]) -> None:
        """`foreseen`: failures that the caller reports in one line."""
        self._foreseen = foreseen
        self._said: IO[bytes] | None = None
        self._real: TextIO | None = None
        self._before: TextIO | None = None

    def __enter__(self) -> Self:
        """Redirect descriptor 2, and silence the bridge to Java, which logs tracebacks when it is interrupted in a call."""
        logging.getLogger().addFilter(_is_of_a_module)
        try:
            real = os.dup(2)
        except OSError:
            return self  # the parent process closed it: nothing reads it
        self._said = tempfile.TemporaryFile()
        self._before, self._real = sys.stderr, os.fdopen(real, "w", encoding="utf-8", errors="replace")
        sys.stderr = self._real
        os.dup2(self._said.fileno(), 2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Restore it; after an unexpected failure, show the end of the output."""
        logging.getLogger().removeFilter(_is_of_a_module)
        if self._said is None or self._real is None or self._before is None:
            return
        self._real.flush()
        os.dup2(self._real.fileno(), 2)
        sys.stderr = self._before
        if kind is not None and issubclass(kind, Exception) and not issubclass(kind, self._foreseen):
            size = self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, size - _SHOWN_BYTES_MAX))
            sys.stderr.write(self._said.read().decode(errors="replace"))
            sys.stderr.flush()
        self._said.close()
        self._real.close()


def _is_of_a_module(record: logging.LogRecord) -> bool:
    """Whether a record is of a named logger, not of py4j, which uses the root."""
    return record.name != "root"
