"""Starts whole systems for tests with the launcher on free ports, and stops them at the end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def gantry(*words: str, timeout: float = 300) -> str:
    """Run one launcher command as a user does, and return its output."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "gantry"), *words],
        capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextlib.contextmanager
def running_system(data: Path, *options: str) -> Iterator[dict[str, Any]]:
    """Run a system on free ports while the block runs; yield the output of `up --json` and `data`, its directory."""
    words = ("--free-ports", "--detach", "--json", "--set", "broker-store.send_wait_ms_max=60000", *options)
    try:
        yield {**json.loads(gantry("up", "--data", str(data), *words)), "data": str(data)}
    finally:
        gantry("down", "--data", str(data))
