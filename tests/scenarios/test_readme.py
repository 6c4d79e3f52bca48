"""The README's curl lines, run as they are written (only the address differs)."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def curl_lines() -> list[list[str]]:
    """Every curl command of the README's round trip, as arguments."""
    section = README.read_text().split("## A round trip with curl")[1].split("\n## ")[0]
    blocks = "\n".join(re.findall(r"```\n(.*?)```", section, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line) for line in blocks.splitlines() if line.startswith("curl ")]


def run(arguments: list[str], http: str) -> dict[str, object]:
    moved = [argument.replace("localhost:8080", http.removeprefix("http://")) for argument in arguments]
    ran = subprocess.run(
        [moved[0], "-sS", *moved[1:]], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(ran.stdout)


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_round_trip_of_the_readme_works_as_written(new_system) -> None:
    system = new_system()  # of its own: the README begins with an empty topic
    create, send, pull, held = curl_lines()
    run(create, system["http"])
    sent = run(send, system["http"])["results"][0]
    assert sent["status"] == "SEND_OK"
    assert (sent["broker"], sent["queueId"], sent["queueOffset"], sent["durability"]) == (
        "broker-a",
        0,
        0,
        "fsync",
    )
    found = run(pull, system["http"])
    assert found["status"] == "FOUND"
    message = found["messages"][0]
    assert (message["body"], message["tag"], message["keys"]) == ("hi", "a", ["o-1"])
    assert message["messageId"] == sent["messageId"]

    answers: list[dict[str, object]] = []
    waiting = threading.Thread(target=lambda: answers.append(run(held, system["http"])))
    waiting.start()
    waiting.join(0.7)
    assert waiting.is_alive(), f"the pull was not held: {answers}"
    run(send, system["http"])
    waiting.join(60)
    assert [m["queueOffset"] for m in answers[0]["messages"]] == [1]
