"""An unmodified official client (C++ core, from PyPI) sends to a real system and consumes from it by pull and push."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cpp_client_program.py")
COUNT = 40


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_official_cpp_client_sends_and_consumes_by_pull_and_push(system, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), system["nameserver"], "cpp_orders", str(COUNT)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    seen = json.loads(ran.stdout.splitlines()[-1])
    everything = COUNT + 1 + 4
    assert seen["sent"] == COUNT + 4
    assert seen["distinctIds"] == COUNT + 4
    assert sorted(int(message["number"]) for message in seen["pulled"]) == list(range(everything))
    for message in seen["pulled"]:
        number = int(message["number"])
        assert message["body"] == f"body-{number} äöü €"
        assert message["keys"] == f"key-{number}"
        assert message["tag"] == ("odd" if number % 2 else "even")
    assert sorted(seen["pushed"]) == sorted(f"body-{n} äöü €" for n in range(0, everything, 2))
