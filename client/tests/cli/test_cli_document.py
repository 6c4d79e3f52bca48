"""Every screen in docs/cli.md shows the actual output. WRITE_SCREENS=1 in the environment rewrites the screens.

Numbers, ids and places differ from run to run and are not compared, nor is how wide a column is. Lists may have more lines than
are shown: other tests use the same system.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from gantrymq.cli.main import main
from gantrymq.testing import System

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/cli.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SCREEN = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
CAPTURE = re.compile(r"(\w+)=\$\((.*) \| jq -r \.(\w+)\)")
MASKS = (
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"(?<=handle )\S+"), "HANDLE"),
    (re.compile(r"broker-[ab](:\d+)(@\d+)?"), "PLACE"),
    (re.compile(r"\d+(\.\d+)?"), "N"),
    (re.compile(r"(?<=N) ?(ms|s|m)\b"), ""),
    (re.compile(r" +"), " "),
)
PATIENCE_SECONDS = 60
MORE_LINES = {"list", "lag"}
QUESTIONS = {"list", "show", "lag", "query", "timeline", "pull", "tail", "doctor"}


def masked(text: str) -> list[str]:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@contextmanager
def captured() -> Iterator[list[str]]:
    """Everything that is written to descriptors 1 and 2, in its order, also by children."""
    text: list[str] = []
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    streams = sys.stdout, sys.stderr
    with TemporaryFile("w+") as held:
        for descriptor in (1, 2):
            os.dup2(held.fileno(), descriptor)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
        try:
            yield text
        finally:
            sys.stdout.flush()
            sys.stdout, sys.stderr = streams
            for descriptor, original in zip((1, 2), kept, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
            held.seek(0)
            text.append(held.read())


def run(line: str, names: dict[str, str]) -> str:
    """What one line of the document prints."""
    for name, value in names.items():
        line = line.replace(f"${name}", value)
    if not line.startswith("gantrymq "):
        source = f'gantrymq() {{ {sys.executable} -m gantrymq.cli "$@"; }}\n{line}'
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(["bash", "-c", source], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)  # fmt: skip
        return ran.stdout
    with captured() as text:
        main(shlex.split(line)[1:])
    return text[0]


def screen(line: str, names: dict[str, str], expected: str | None) -> str:
    """What a command of the document prints; one that only shows is asked again until it shows what is expected."""
    capture = CAPTURE.fullmatch(line)
    if capture:
        answer = json.loads(run(capture[2], names).splitlines()[0])
        names[capture[1]] = answer[capture[3]]
        return ""
    text = run(line, names)
    until = time.monotonic() + PATIENCE_SECONDS
    while expected is not None and QUESTIONS & set(line.split()[1:3]) and differs(line, expected, text):
        if time.monotonic() > until:
            break
        time.sleep(0.5)
        text = run(line, names)
    return text


def differs(line: str, expected: str, text: str) -> bool:
    wanted, found = masked(expected), masked(text)
    if MORE_LINES & set(line.split()[1:3]):
        rest = iter(found)
        return not all(any(line == other for other in rest) for line in wanted)
    return wanted != found


def test_every_screen_shows_the_actual_output(gantry_broker: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_HTTP", gantry_broker.http)
    names: dict[str, str] = {}
    is_writing = "WRITE_SCREENS" in os.environ
    wrong: list[str] = []

    def shown(found: re.Match[str]) -> str:
        line, expected = found.groups()
        text = screen(line, names, None if is_writing else expected)
        if differs(line, expected, text):
            wrong.append(f"$ {line}\nprints\n{text}instead of\n{expected}")
        return f"$ {line}\n" + re.sub(r"\n+$", "\n", text)

    written = BLOCK.sub(lambda block: f"```console\n{SCREEN.sub(shown, block[1])}```", DOCUMENT.read_text())
    if is_writing:
        DOCUMENT.write_text(written)
    else:
        assert not wrong, "\n\n".join(wrong)


def test_the_document_has_every_command() -> None:
    from gantrymq.cli.main import make_app

    text = DOCUMENT.read_text()
    app = make_app()
    words = [f"gantrymq {one.name}" for one in app.registered_commands]
    for group in app.registered_groups:
        words += [f"gantrymq {group.name} {one.name}" for one in group.typer_instance.registered_commands]
    assert [word for word in words if word not in text] == []
