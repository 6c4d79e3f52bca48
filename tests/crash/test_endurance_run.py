"""The endurance run, short: it starts, kills, counts, judges and leaves its page. By command: `./gantry test -m soak tests/crash/test_endurance_run.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_short_endurance_run_breaks_no_promise_and_leaves_its_page(tmp_path: Path, seed: int) -> None:
    words = "--minutes 1 --pending 5000 --kill-seconds 8 --log-megabytes 2 --segment-megabytes 1"
    ran = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "endurance.py"), *words.split(), "--seed", str(seed),
         "--out", str(tmp_path / "out"), "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=1500, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    told = json.loads((tmp_path / "out" / "endurance.json").read_text())
    promises = (
        "lost",
        "doubled",
        "early",
        "forbidden",
        "foreign",
        "taken_again",
        "disordered",
        "agedOutUnread",
    )
    assert [told["count"][promise] for promise in promises] == [0] * len(promises), ran.stdout
    assert told["count"]["acknowledged"] > 500
    assert told["count"]["retentionTookBytes"] > 0
    assert told["kills"]
    assert not told["faults"]
    page = (tmp_path / "out" / "endurance.html").read_text()
    assert page.count("<svg") > 8
