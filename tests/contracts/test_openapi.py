"""Schemathesis tests the gateway of a running system against its own OpenAPI: valid and invalid data, other methods.

Every response is a described one, of the described shape, and never a 500. The examples and the limits of
each field always run, with short holds; on request (`./gantry test -m soak tests/contracts`) random values as well, and calls
held for the full time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "openapi"
SECONDS_MAX = 400
FUZZING_SECONDS_MAX = 1200


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_the_gateway_matches_its_description(system: dict[str, Any], tmp_path: Path) -> None:
    attack(system["http"], tmp_path, "examples,coverage", SECONDS_MAX, WAIT_SECONDS_MAX="0.25")


@pytest.mark.soak
@pytest.mark.timeout(FUZZING_SECONDS_MAX + 60)
def test_the_gateway_matches_its_description_in_a_long_run(system: dict[str, Any], tmp_path: Path) -> None:
    attack(system["http"], tmp_path, "examples,coverage,fuzzing", FUZZING_SECONDS_MAX)


def attack(http: str, tmp_path: Path, phases: str, seconds_max: int, **environment: str) -> None:
    for path in ("/v1/topics/orders", "/v1/groups/g1"):  # otherwise every response is 404
        with urllib.request.urlopen(
            urllib.request.Request(f"{http}{path}", method="PUT"), timeout=90
        ) as answer:
            assert answer.status == 200
    for name in ("schemathesis.toml", "hooks.py"):
        shutil.copy(HERE / name, tmp_path / name)
    program = Path(sys.executable).with_name("schemathesis")
    ran = subprocess.run(
        [str(program), "--no-color", "run", f"{http}/openapi.json", "--phases", phases],
        cwd=tmp_path, capture_output=True, text=True, timeout=seconds_max, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert "Tested: " in ran.stdout


def test_the_description_is_complete(system: dict[str, Any]) -> None:
    with urllib.request.urlopen(f"{system['http']}/openapi.json", timeout=60) as answer:
        described = json.load(answer)
    assert {path for path in described["paths"] if path.startswith("/v1")} == {
        "/v1/topics/{topic}/messages",
        "/v1/topics/{topic}/queues/{broker}/{queueId}/messages",
        "/v1/topics/{topic}/groups/{group}/messages:receive",
        "/v1/topics/{topic}/groups/{group}/messages:ack",
        "/v1/topics/{topic}/groups/{group}/messages:extend",
        "/v1/topics",
        "/v1/topics/{topic}",
        "/v1/groups",
        "/v1/groups/{group}",
        "/v1/groups/{group}:pause",
        "/v1/groups/{group}:resume",
        "/v1/groups/{group}/offsets",
        "/v1/groups/{group}/lag",
        "/v1/groups/{group}/offsets:reset",
        "/v1/messages",
        "/v1/messages/{id}",
        "/v1/messages/{id}/timeline",
        "/v1/brokers",
        "/v1/brokers/{broker}/settings",
        "/v1/brokers/{broker}:moveLeader",
        "/v1/cluster",
        "/v1/definitions",
        "/v1/schedules",
        "/v1/schedules/{id}",
        "/v1/schedules/{id}:deliverNow",
        "/v1/schedules:bulkCancel",
        "/v1/schedules:bulkMove",
        "/v1/parked",
        "/v1/parked/{id}:resend",
        "/v1/tasks",
        "/v1/tasks/{id}",
        "/v1/tasks/{id}:cancel",
        "/v1/groups/{group}/deadLetters",
        "/v1/groups/{group}/deadLetters:redrive",
        "/v1/topics/{topic}/transactions",
        "/v1/transactions/{id}:commit",
        "/v1/transactions/{id}:rollback",
        "/v1/transactions",
        "/v1/transactions/{id}",
        "/v1/producerGroups/{group}/checks:receive",
        "/v1/reports",
        "/v1/reports/index.html",
        "/v1/reports/{name}/{path}",
        "/v1/users",
        "/v1/users/{name}",
        "/v1/users/{name}:rotate",
        "/v1/policies",
        "/v1/policies/{subject}",
        "/v1/tokens",
        "/v1/tokens/{id}",
        "/v1/access:explain",
        "/v1/access:reseal",
        "/v1/access:whoami",
    }
