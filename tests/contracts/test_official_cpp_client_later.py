"""The official C++ client: a delay level, an orderly consumer, and a message that fails until it becomes a dead letter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("cpp_client_later_program.py")
SECONDS_MAX = 60


def call(system: dict[str, Any], method: str, path: str, body: object = None) -> dict[str, Any]:
    """Call the gateway; repeat what it answers 503, which is safe: a busy machine announces a topic late."""
    until = time.monotonic() + SECONDS_MAX
    request = urllib.request.Request(
        system["http"] + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refused:
            if refused.code != 503 or time.monotonic() > until:
                raise AssertionError(
                    f"{method} {path}: {refused.code} {refused.read().decode()}"
                ) from refused
        time.sleep(0.2)


def dead_letters(system: dict[str, Any], group: str) -> list[Any]:
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := call(system, "GET", f"/v1/groups/{group}/deadLetters")["messages"]):
        assert time.monotonic() < deadline, "no dead letter"
        time.sleep(0.2)
    return found


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_the_official_cpp_client_delays_consumes_in_order_and_fails(system, tmp_path: Path) -> None:
    for name in ("delayed", "ordered", "failing"):
        call(system, "PUT", f"/v1/topics/cpp_later-{name}", {"readQueues": 2, "writeQueues": 2, "perm": "rw"})
    policy = {"type": "list", "delaysMs": [500]}
    call(system, "PUT", "/v1/groups/cpp-failing", {"retryMaxTimes": 1, "retryPolicy": policy})
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(PROGRAM), system["nameserver"], "cpp_later"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "HOME": str(tmp_path)},
        ) as ran,
    ):  # fmt: skip
        assert ran.stdout is not None
        assert ran.stdout.readline() == "failed twice\n", (tmp_path / "errors").read_text()[-2000:]
        (dead,) = dead_letters(system, "cpp-failing")
        seen = json.loads(ran.communicate(timeout=SECONDS_MAX)[0])
    assert ran.returncode == 0, (tmp_path / "errors").read_text()[-2000:]
    assert seen["delayed"]["bodies"] == ["in a second"]
    assert seen["delayed"]["seconds"] >= 1
    assert seen["ordered"] == [str(number) for number in range(60)]
    assert seen["failing"] == [0, 1]
    assert dead["body"] == "fails"
