"""`bench`: runs the programs of bench/ one after the other. What they measure and against what, each says itself."""

import ast
import signal
import subprocess
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from gantry_launcher import install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.output.terminal import say, write_out

FOLDER = ROOT / "bench"
SPARK = "spark_"
"""Programs of these names need what Spark needs."""


ALL = Path("whole_run") / "run.py"
"""Runs all programs, with one table at the end; it is not a bench program itself."""


def bench(words: list[str]) -> int:
    """Run the named programs, or without a name all, as bench/whole_run/run.py has it; exit status 1 when one failed, 2 when its options were refused.

    Words from the first option on are the arguments of the one program named before them.
    """
    known = programs()
    if {"-h", "--help", "--list"} & set(words[:1]):
        write_out(help_text(known))
        return 0
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    arguments = words[len(names) :]
    _check(names, known)
    if arguments and len(names) > 1:
        raise Refused(f"{arguments[0]} belongs to one benchmark: ./gantry bench NAME {' '.join(arguments)}")
    install.ensure(install.RUN_LOCK, say)
    if not names:
        return _run(FOLDER / ALL, arguments)
    if any(name.startswith(SPARK) for name in names):
        install.ensure(install.SPARK_LOCK, say)
    found = files()
    failed: dict[str, int] = {}
    for name in names:
        write_out(f"\n== {name}: {known[name]}\n")
        if status := _run(found[name], arguments):
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


def files() -> dict[str, Path]:
    """Return the file of each program by its name, fast enough for a key press.

    A program tells how it is run (`python bench/FOLDER/NAME.py`); other files of the folders are parts of programs.
    """
    return {
        path.stem: path
        for path in sorted(FOLDER.glob("*/*.py"), key=lambda path: path.stem)
        if f"python bench/{path.parent.name}/{path.name}" in path.read_text(encoding="utf-8")
    }


def programs() -> dict[str, str]:
    """Return the programs and the first line of what they say of themselves."""
    return {name: _description(path) for name, path in files().items()}


def _description(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem).splitlines()[0]


def help_text(known: dict[str, str]) -> str:
    """Return the programs by name, each with its description."""
    lines = [f"  {name:<14} {words}" for name, words in known.items()]
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


def _run(program: Path, arguments: list[str]) -> int:
    command = [str(PYTHON), str(program), *arguments]
    with subprocess.Popen(command, cwd=ROOT) as process:

        def end(_number: int, _frame: object) -> None:
            process.terminate()

        before = signal.signal(signal.SIGTERM, end)
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
