"""What went wrong, as one line: Spark hands on the errors of its Python processes as pages of text."""

from __future__ import annotations

import re
from typing import Final

from gantry_spark.jvm import NoJava
from gantry_spark.options import BadOption
from gantry_spark.store_directory import NotAStore
from gantry_spark.store_end import StoreUnreadable

CHARS_MAX: Final = 500
_OURS: Final = re.compile(r"^(?:gantry_spark[\w.]*\.)(?P<kind>[A-Z]\w+): (?P<words>.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(?P<words>[A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE)


def in_words(error: BaseException) -> tuple[bool, str]:
    """Return whether nothing could begin as it was asked (exit status 2), and one line that says why."""
    if isinstance(error, NoJava | NotAStore | BadOption | StoreUnreadable):
        return True, str(error)
    if isinstance(error, OSError):
        return False, f"{error.filename or 'the export'}: {error.strerror or error}"
    text = str(error)
    ours = list(_OURS.finditer(text))
    if ours:
        return False, ours[-1]["words"][:CHARS_MAX]
    python = list(_PYTHON.finditer(text))
    told = python[-1]["words"] if python else text.strip().partition("\n")[0]
    return False, f"the export failed, and can be run again: {told[:CHARS_MAX] or type(error).__name__}"
