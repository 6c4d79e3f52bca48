"""Condenses errors to one line: Spark returns the errors of its Python processes as pages of text."""

from __future__ import annotations

import re
from typing import Final

from gantry_spark.bad_option import BadOption
from gantry_spark.export.failures import Failed, Refused
from gantry_spark.source.reading import DataLost
from gantry_spark.spark.jvm import NoJava
from gantry_spark.store.directory import NotAStore
from gantry_spark.store.end import StoreUnreadable

CHARS_MAX: Final = 500
_OF_THE_SOURCE: Final = "Set failOnDataLoss"
_OURS: Final = re.compile(r"^(?:gantry_spark[\w.]*\.)(?P<kind>[A-Z]\w+): (?P<words>.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(?P<words>[A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE)


def foreseen(error: Exception) -> Refused | Failed | None:
    """Return a known error that one line explains; None if more of Spark's output may be needed."""
    if isinstance(error, Refused | Failed):
        return error
    if isinstance(error, NoJava | NotAStore | BadOption | StoreUnreadable):
        return Refused(str(error))
    if isinstance(error, OSError):
        return Failed(f"{error.filename or 'the export'}: {error.strerror or error}")
    ours = list(_OURS.finditer(str(error)))
    if not ours:
        return None
    words = ours[-1]["words"]
    if ours[-1]["kind"] == DataLost.__name__:  # it names the option of the source
        words = f"{words.partition(_OF_THE_SOURCE)[0]}Continue without them by --accept-loss"
    return Failed(words[:CHARS_MAX])


def in_words(error: Exception) -> str:
    """Return one line about an unexpected error."""
    text = str(error)
    python = list(_PYTHON.finditer(text))
    text_line = python[-1]["words"] if python else text.strip().partition("\n")[0]
    return f"the export failed, and can be run again: {text_line[:CHARS_MAX] or type(error).__name__}"
