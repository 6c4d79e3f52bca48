"""`bench`: runs the programs of bench/ one after the other. What they measure and against what, each says itself."""

import ast
import subprocess
import sys

from gantry_launcher import install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.terminal import say

FOLDER = ROOT / "bench"


def bench(names: list[str]) -> int:
    """Run the named programs, or all; exit status 1 when one failed."""
    known = programs()
    if {"-h", "--help"} & set(names):
        sys.stdout.write(help_text(known))
        return 0
    for name in names:
        if name not in known:
            raise Refused(f"no such benchmark: {name}; there are {', '.join(known)}")
    install.ensure(install.RUN_LOCK, say)
    failed = [name for name in names or known if _run(name, known[name])]
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


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
    """Return the programs by name, each with what it says of itself."""
    lines = [f"  {name:<12} {words}" for name, words in known.items()]
    return "\n".join(["usage: ./gantry bench [NAME...]   (without a name, all of it)", "", *lines, ""])


def _run(name: str, words: str) -> int:
    sys.stdout.write(f"\n== {name}: {words}\n")
    sys.stdout.flush()
    return subprocess.run([str(PYTHON), str(FOLDER / f"{name}.py")], cwd=ROOT, check=False).returncode
