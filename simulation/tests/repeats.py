"""Digests of a life in another process: what must not depend on this one, such as addresses and the seed of hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
SECONDS_MAX = 60


def digest_elsewhere(module: str, seed: int) -> str:
    """Return what `digest(seed)` of a test module returns in a new process with another PYTHONHASHSEED."""
    program = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import {module} as t; print(t.digest({seed}))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    return ran.stdout.splitlines()[-1]
