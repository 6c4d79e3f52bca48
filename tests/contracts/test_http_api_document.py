"""docs/http-api.md is correct: its commands work as written, and it names everything in the OpenAPI description."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs/http-api.md"
FIRST = "GANTRY=http://127.0.0.1:8080\n"


def test_its_commands_work_as_written_from_top_to_bottom(system: dict[str, Any]) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert blocks[0] == FIRST
    assert len(blocks) > 8
    lines = f"GANTRY={system['http']}\n" + "".join(blocks[1:])
    strict = 'set -e -o pipefail\ncurl() { command curl -sS --fail-with-body "$@"; }\n'
    ran = subprocess.run(
        ["bash", "-c", strict + lines], capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    assert '"duplicate":true' in ran.stdout
    assert '"systemProperties"' in ran.stdout


def test_it_names_every_path_parameter_and_code_in_the_openapi(system: dict[str, Any]) -> None:
    with urllib.request.urlopen(f"{system['http']}/openapi.json", timeout=60) as answer:
        described = json.load(answer)
    text = DOCUMENT.read_text()
    for path, calls in described["paths"].items():
        last = re.sub(r"\{\w+\}", "", path).rstrip("/").rsplit("/", 1)[-1]
        assert last.rsplit(":", 1)[-1] in text, path
        for call in calls.values():
            for parameter in call.get("parameters", []):
                assert parameter["name"] in text, (path, parameter["name"])
            for status in call["responses"]:
                assert status == "200" or f"| {status} |" in text, (path, status)
    for name in described["components"]["schemas"]["MessageIn"]["properties"]:
        assert f"`{name}`" in text, name
