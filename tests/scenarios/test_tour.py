"""docs/tour.md, run as it is written: what it shows is what is answered.

Only the address differs, and that a busy machine is waited for where the tour waits a second or has a task that is about to be done.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "docs/tour.md"
SECONDS_MAX = 150
MARK = "=== step "
DEAD, DONE = "curl -s $http/v1/groups/kitchen/deadLetters", "curl -s $http/v1/tasks/$task"
PATIENT = {
    f"sleep 1\n{DEAD}": f"until {DEAD} | grep -q 'burnt toast'; do sleep 0.1; done\n{DEAD}",
    DONE: f"until {DONE} | grep -q '\"done\":1'; do sleep 0.1; done\n{DONE}",
}
QUICK_CHECKS = ("--set", "txn-checker.transaction_timeout_ms=500", "--set", "txn-checker.poll_ms=100")


def steps() -> list[tuple[str, list[str]]]:
    """Each block of commands with the fragments that its output must hold, in their order."""
    blocks = re.findall(r"```sh\n(.*?)```\n```text\n(.*?)```", TOUR.read_text(), re.DOTALL)
    return [(commands, shown.splitlines()) for commands, shown in blocks]


def run(http: str) -> list[str]:
    """The output of every step, all of them typed into one shell."""
    script = "".join(f'echo "{MARK}{number}"\n{commands}\n' for number, (commands, _) in enumerate(steps()))
    for written, patient in PATIENT.items():
        assert script.count(written) == 1, written
        script = script.replace(written, patient)
    script = script.replace("localhost:8080", http.removeprefix("http://"))
    ran = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return re.split(rf"{MARK}\d+\n", ran.stdout)[1:]


def test_every_block_of_commands_says_what_it_answers() -> None:
    assert len(steps()) == TOUR.read_text().count("```sh\n") > 8


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_the_tour_answers_what_it_shows(new_system) -> None:
    outputs = run(new_system(*QUICK_CHECKS)["http"])
    for (commands, shown), output in zip(steps(), outputs, strict=True):
        pattern = ".*".join(re.escape(line).replace("…", ".*") for line in shown)
        assert re.search(pattern, output, re.DOTALL), f"{commands}\nanswered\n{output}\ninstead of\n{shown}"
