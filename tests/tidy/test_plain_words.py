"""Code, tests and documents use plain English: a banned word fails with its replacement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_tidy import named, tracked

INSTEAD_OF = {
    r"anew": "again, or name the action: rebuild, restart, recreate",
    r"afresh": "again",
    r"mend(s|ed|ing)?": "fix, repair or recover",
    r"(is|are|was|were|be|been) told": "say what happens: gets, receives, is notified, reports",
    r"who asks": "the caller, or the client",
    r"who comes?": "name the actor: the client, the caller",
    r"to who(m|ever)?": "name the actor: the client, the reader",
    r"who(m)?ever": "name the actor, or use any",
    r"whyever": "whatever the reason",
    r"at hand": "current",
    r"(go|goes|going|went|gone) on": "continue, resume",
    r"stands? still": "stalls, hangs or is paused",
    r"roll call": "the expected brokers",
    r"crowd(s)?": "backlog, or say how many",
    r"takes? note": "record",
    r"(gone|went) afar|afar": "far",
    r"last words": "last lines of the log",
    r"short way|long way": "fast path, slow path",
}

ANY = re.compile(rf"\b({'|'.join(INSTEAD_OF)})\b", re.IGNORECASE)


def _found(path: Path) -> list[str]:
    """Return the banned words of a file, with line, text and replacement."""
    found: list[str] = []
    whole = path.read_text()
    if not ANY.search(whole) and not ANY.search(whole.replace("_", " ")):
        return found
    for number, line in enumerate(whole.splitlines(), 1):
        text = line.replace("_", " ") if "def test_" in line else line
        found += [
            f"{named(path)}:{number}: write {instead!r}, not {match[0]!r}: {text.strip()[:120]}"
            for word, instead in INSTEAD_OF.items()
            for match in re.finditer(rf"\b({word})\b", text, re.IGNORECASE)
        ]
    return found


ALL = [path for path in tracked("*.py", "*.md", "gantry") if path != Path(__file__)]


def test_texts_have_no_banned_word() -> None:
    found = [line for path in ALL for line in _found(path)]
    assert not found, "\n".join(found)


def test_a_banned_word_is_found_in_text_and_in_a_test_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.named", lambda path: path.name)
    text = tmp_path / "a.py"
    text.write_text("# the index is made anew\ndef test_the_caller_is_told(): ...\nrecommended = 1\n")
    assert [line.split(": write")[0] for line in _found(text)] == ["a.py:1", "a.py:2"]
