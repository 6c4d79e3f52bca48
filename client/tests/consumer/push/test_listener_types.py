"""A user's type checker accepts working listeners, and refuses those that would fail on every call."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE / "listener_types"


def complained_lines(tmp_path: Path, file: Path) -> set[int]:
    """Run pyright in strict mode on a file of a user; returns the lines (from 1) with errors."""
    tools = Path(sys.executable).parent
    packages = [
        str(HERE.parents[2] / "src"),
        *(str(each) for each in (HERE.parents[3] / "libs").glob("*/src")),
    ]
    (tmp_path / file.name).write_text(file.read_text())
    settings = {"include": [file.name], "typeCheckingMode": "strict", "extraPaths": packages}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = subprocess.run(
        [tools / "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    said = json.loads(found.stdout)
    assert said["summary"]["filesAnalyzed"] == 1
    return {
        one["range"]["start"]["line"] + 1 for one in said["generalDiagnostics"] if one["severity"] == "error"
    }


def test_valid_listeners_pass(tmp_path: Path) -> None:
    assert complained_lines(tmp_path, EXAMPLES / "right.py") == set()


def test_each_invalid_listener_is_an_error_and_nothing_else_is(tmp_path: Path) -> None:
    lines = (EXAMPLES / "wrong.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(wrong) == 12
    assert complained_lines(tmp_path, EXAMPLES / "wrong.py") == wrong
