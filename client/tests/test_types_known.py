"""The package's types for a user's type checker: every public name has one."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_every_public_name_has_a_type(tmp_path: Path) -> None:
    """What typer and pytest leave open in their own names is theirs (--ignoreexternal)."""
    tools = Path(sys.executable).parent
    found = subprocess.run(
        [tools / "pyright", "--verifytypes", "gantrymq", "--ignoreexternal", "--outputjson"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    completeness = json.loads(found.stdout)["typeCompleteness"]
    unknown = [
        symbol["name"]
        for symbol in completeness["symbols"]
        if symbol["isExported"] and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])
    ]
    assert unknown == []
    assert completeness["completenessScore"] == 1
    assert "gantrymq.message.Message.body" in {symbol["name"] for symbol in completeness["symbols"]}
