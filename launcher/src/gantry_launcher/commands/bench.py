"""`bench`: runs the programs of bench/ one after the other. What they measure and against what, each says itself."""

import ast
import signal
import subprocess
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import takewhile

from gantry_launcher import install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.output.terminal import say

FOLDER = ROOT / "bench"
SPARK = "spark_"
"""Programs of these names need what Spark needs."""


ALL = "run"
"""Runs all programs, with one table at the end; it is not a bench program itself."""


def bench(words: list[str]) -> int:
    """Run the named programs, or without a name all, as bench/run.py has it; exit status 1 when one failed, 2 when its options were refused.

    Words from the first option on are the arguments of the one program named before them.
    """
    known = programs()
    if {"-h", "--help", "--list"} & set(words[:1]):
        sys.stdout.write(help_text(known))
        return 0
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    arguments = words[len(names) :]
    _check(names, known)
    if arguments and len(names) > 1:
        raise Refused(f"{arguments[0]} belongs to one benchmark: ./gantry bench NAME {' '.join(arguments)}")
    install.ensure(install.RUN_LOCK, say)
    if not names:
        return _run(ALL, arguments)
    if any(name.startswith(SPARK) for name in names):
        install.ensure(install.SPARK_LOCK, say)
    failed: dict[str, int] = {}
    for name in names:
        sys.stdout.write(f"\n== {name}: {known[name]}\n")
        sys.stdout.flush()
        if status := _run(name, arguments):
            failed[name] = status
    if set(failed.values()) == {2}:
        return 2  # refused its options, and has said so
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _check(names: list[str], known: Mapping[str, str]) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=2)
            meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise Refused(f"no such benchmark: {name}; {meant}")


def programs() -> dict[str, str]:
    """Return the programs and the first line of what they say of themselves.

    A program tells how it is run (`python bench/NAME.py`); other files of the folder are parts of programs.
    """
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.py")):
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if f"python bench/{path.name}" in words:
            found[path.stem] = words.splitlines()[0]
    return found


def help_text(known: dict[str, str]) -> str:
    """Return the programs by name, each with its description."""
    lines = [f"  {name:<12} {words}" for name, words in known.items()]
    return "\n".join(
        [
            "usage: ./gantry bench [--out DIR] [--only NAME...] [--skip NAME...] [--quick] [--jars DIR[:DIR...]]   everything, one table",
            "       ./gantry bench --against rocketmq,nats,redis,rabbitmq [--jars DIR[:DIR...]]                   compare with other brokers",
            "       ./gantry bench --table FILE... [--into DOCUMENT]              merge bench.json files of --out DIR into one table",
            "       ./gantry bench NAME... | NAME OPTION...                       only these; options: NAME --help",
            "",
            *lines,
            "",
        ]
    )


def _run(name: str, arguments: list[str]) -> int:
    command = [str(PYTHON), str(FOLDER / f"{name}.py"), *arguments]
    with subprocess.Popen(command, cwd=ROOT) as program:

        def end(_number: int, _frame: object) -> None:
            program.terminate()

        before = signal.signal(signal.SIGTERM, end)
        try:
            return program.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
