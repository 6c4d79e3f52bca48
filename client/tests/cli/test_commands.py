"""Commands on a real system, as programs use them: JSON, exit statuses, refusals. test_cli_document.py tests the output for people."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gantrymq
from gantrymq.cli.main import main
from gantrymq.testing import System

DEAD = "http://127.0.0.1:1"


class Ran(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> Ran:
        capfd.readouterr()
        status = main(list(words))
        return Ran(status, *capfd.readouterr())

    return command


@pytest.fixture
def gantry(gantry_broker: System, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GANTRY_HTTP", gantry_broker.http)
    return run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "No such command 'nonsense' (see gantrymq --help)"),
        (["topic"], "gantrymq topic: a command is missing: list, show, create, set, delete (see gantrymq topic --help)"),
        (["topic", "lst"], "No such command 'lst'. Did you mean 'list', 'set'? (see gantrymq topic --help)"),
        (["send"], "Missing argument 'TOPIC' (see gantrymq send --help)"),
        (["send", "a b", "x"], "'a b' is not a valid name of a topic: 1 to 127 letters, digits or % | - _"),
        (["send", "t", "x", "--key"], "Option '--key' requires an argument"),
        (["send", "t", "x", "--colour", "red"], "No such option: --colour"),
        (["send", "t", "x", "--delay", "soon"], "'soon' is not a duration: write 500ms, 1.5s, 10m, 1h30m or 2d"),
        (["send", "t", "x", "--delay", "1s", "--at", "now"], "give one of --delay, --delay-level and --at"),
        (["send", "t", "x", "--property", "a"], "'a' is not a property: write NAME=VALUE, neither empty"),
        (["send", "t", "x", "--queue", "3"], "'3' is not a queue: write BROKER:ID, as broker-a:3"),
        (["send", "t", "x", "--file", "y"], "give one body: BODY, --file or --lines"),
        (["pull", "t", "--offset", "3"], "name it with --queue BROKER:ID"),
        (["pull", "t", "--filter", "a", "--sql", "b"], "give --filter or --sql: one of the two"),
        (["receive", "t", "g", "--invisible", "2d"], "'2d': a lease is 1s to 12h"),
        (["consume", "t", "g", "--exec", " "], "--exec is empty: give the command to run"),
        (["consume", "t", "g"], "Missing option '--exec'"),
        (["topic", "set", "t"], "nothing to change: give --queues, --read-queues, --write-queues, --perm or --message-type"),
        (["topic", "create", "t", "--queues", "0"], "Invalid value for '--queues': at least 1 (see"),
        (["topic", "create", "t", "--perm", "x"], "Invalid value for '--perm': 'x' is not one of 'rw', 'r', 'w'"),
        (["group", "create", "g", "--retry-after", "1m*0.5<1s"], "the factor of '1m*0.5<1s' is under 1"),
        (["send", "t", "x", "--property", "a=1", "--property", "a=2"], "property a is given twice"),
        (["send", "t", "x", "--token", "ä"], "a token consists of printable ASCII characters"),
        (["group", "create", "g", "--retry-after", "often"], "a policy is levels, 1s,5s,1m or 1s*2<1m"),
        (["offsets", "reset", "g", "t"], "Missing option '--to'"),
        (["offsets", "reset", "g", "t", "--to", "begin"], "write earliest, latest, an offset or a time"),
        (["schedule", "move", "A1"], "give a time: --at TIME, or --shift DURATION"),
        (["schedule", "cancel"], "which messages? name ids to cancel, or give --topic, --key, --broker, --from or --to"),
        (["lag", "--every", "1ms"], "--every is at least 100ms"),
        (["broker", "set", "b", "a=1", "a=2"], "setting a is given twice"),
        (["tail", "t", "--http", "localhost"], "'localhost' is not the address of a gateway: write it like http://127.0.0.1:8080"),
        (["message", "query", "t", "--from", "soon"], "'soon' is not a time: write it like"),
    ],
)  # fmt: skip
def test_wrong_use_prints_one_line_that_says_what_to_do(run: Run, words: list[str], says: str) -> None:
    ran = run(*words)
    assert ran.status == 2
    assert says in ran.err
    assert ran.err.startswith("gantrymq: ")
    assert (ran.err.count("\n"), ran.out) == (1, "")


def test_an_unreachable_gateway_exits_with_4(run: Run) -> None:
    for words in (["topic", "list"], ["tail", "t", "-f"], ["doctor"]):
        ran = run(*words, "--http", DEAD)
        assert ran.status == 4
    assert "cannot reach the gateway" in run("lag", "--http", DEAD).err


def test_the_system_on_a_data_directory_is_found(
    gantry: Run, gantry_broker: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "GANTRY_HTTP gives the gateway's address" in gantry("cluster", "list", "--data", str(tmp_path)).err
    monkeypatch.delenv("GANTRY_HTTP")
    assert gantry("cluster", "list", "--data", str(gantry_broker.data)).status == 0
    nothing = gantry("cluster", "list", "--data", str(tmp_path))
    assert (nothing.status, nothing.err.count("\n")) == (4, 1)
    assert f"start one with ./gantry up --data {tmp_path}, or give --http" in nothing.err


def test_refusals_name_options(gantry: Run) -> None:
    gantry("topic", "create", "cli-words")
    texts = {
        ("message", "show", "7F0000010CF77F6DE72A69BBC7760001"): "; a message id is found with --topic TOPIC",
        ("send", "cli-words", "x", "--tag", ""): "--tag: it may not be empty",
        ("receive", "cli-words", "cli-words", "--change-filter"): "--change-filter needs a filter",
    }
    for words, says in texts.items():
        assert says in gantry(*words).err


def test_too_large_and_empty_bodies_are_refused(
    gantry: Run, gantry_broker: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gantry("topic", "create", "cli-sizes")
    body = tmp_path / "body"
    for size, says in ((4_000_000, "stored"), (5_000_000, "the limit is 4194304"), (20_000_000, "limit")):
        body.write_bytes(b"\0" * size)
        ran = gantry("send", "cli-sizes", "--file", str(body))
        assert says in ran.out + ran.err
        assert ran.status == (0 if says == "stored" else 2)
    ran = subprocess.run(
        [sys.executable, "-m", "gantrymq.cli", "send", "cli-sizes"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "GANTRY_HTTP": gantry_broker.http, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (ran.returncode, "standard input is empty, nothing was sent" in ran.stderr) == (2, True)


def test_an_unknown_object_exits_with_3(gantry: Run) -> None:
    for words in (
        ["topic", "show", "cli-none"], ["topic", "set", "cli-none", "--queues", "1"], ["group", "show", "cli-none"], ["send", "cli-none", "x"],
        ["group", "set", "cli-none", "--retry-max", "1"], ["broker", "show", "cli-none"], ["cluster", "show", "cli-none"],
        ["message", "show", "7F0000010CF77F6DE72A69BBC7760001", "--topic", "cli-none"], ["task", "show", "broker-a.99999"],
        ["send", "cli-none", "--file", "/nowhere/at/all"], ["dlq", "list", "cli-none"], ["broker", "show", "cli-none", "--settings"],
    ):  # fmt: skip
        ran = gantry(*words)
        assert (ran.status, ran.err.count("\n")) == (3, 1), ran


def test_the_version_is_that_of_the_package(run: Run) -> None:
    ran = run("--version")
    assert (ran.status, ran.out) == (0, f"gantrymq {gantrymq.__version__}\n")


def test_commands_in_texts_are_those_the_user_can_type() -> None:
    """The checkout's launcher sets the program: `gantrymq` may not be installed."""
    for program, name in (("./gantry", "gantry"), ("", "gantrymq")):
        ran = subprocess.run(
            [sys.executable, "-m", "gantrymq.cli", "topic", "set"],
            env={**os.environ, "GANTRY_PROGRAM": program}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ran.stderr.startswith(f"{name}: ")
        assert f"(see {program or name} topic set --help)" in ran.stderr
        shown = subprocess.run(
            [sys.executable, "-m", "gantrymq.cli", "topic", "set", "--help"],
            env={**os.environ, "GANTRY_PROGRAM": program}, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert f"    {program or name} topic set orders --queues 32\n" in shown.stdout


def test_the_help_of_every_command_ends_with_examples(run: Run) -> None:
    from gantrymq.cli.main import make_app

    app = make_app()
    words = [[str(one.name)] for one in app.registered_commands]
    for group in app.registered_groups:
        words += [[str(group.name), str(one.name)] for one in group.typer_instance.registered_commands]
    for one in words[::4]:
        ran = run(*one, "--help")
        assert ran.status == 0
        assert f"Examples:\n    gantrymq {' '.join(one)}" in ran.out or one == ["completion"], ran.out
        assert "--json" in ran.out
        assert "--data DIR" in ran.out
        assert not re.search(r"<\w|\{|\[\[", ran.out), ran.out


def test_sent_messages_are_found(gantry: Run) -> None:
    assert gantry("topic", "create", "cli-orders", "--queues", "1", "--json").json["brokers"] == [
        "broker-a",
        "broker-b",
    ]
    words = ["--tag", "a", "--key", "k1", "--property", "x=1", "--queue", "broker-b:0", "--json"]
    sent = gantry("send", "cli-orders", "a body", *words).json
    assert (sent["status"], sent["broker"], sent["queueOffset"]) == ("SEND_OK", "broker-b", 0)
    [pulled] = gantry("pull", "cli-orders", "--queue", "broker-b:0", "--offset", "0", "--json").lines
    assert (pulled["messageId"], pulled["body"], pulled["tag"]) == (sent["messageId"], "a body", "a")
    assert gantry("pull", "cli-orders", "--sql", "x = '2'", "--json").lines == []
    assert [one["body"] for one in gantry("tail", "cli-orders", "--json").lines] == ["a body"]
    wrong = gantry("pull", "cli-orders", "--queue", "broker-b:0", "--offset", "99")
    assert (wrong.status, "it has 0 to 1" in wrong.err) == (2, True)
    wrong = gantry("pull", "cli-orders", "--queue", "broker-b:9")
    assert (wrong.status, "has no queue broker-b:9" in wrong.err) == (3, True)
    wrong = gantry("pull", "cli-orders", "--sql", "x >")
    assert (wrong.status, "at column" in wrong.err or "column" in wrong.err) == (2, True)


def test_tail_follows_until_it_is_interrupted(gantry: Run, gantry_broker: System) -> None:
    assert gantry("topic", "create", "cli-tail", "--queues", "1").status == 0
    command = [sys.executable, "-m", "gantrymq.cli", "tail", "cli-tail", "-f", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GANTRY_HTTP": gantry_broker.http}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as tail:
        assert tail.stdout is not None
        assert gantry("send", "cli-tail", "one", "--queue", "broker-a:0").status == 0
        assert json.loads(tail.stdout.readline())["body"] == "one"
        assert gantry("send", "cli-tail", "two", "--queue", "broker-b:0").status == 0
        assert json.loads(tail.stdout.readline())["body"] == "two"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(60) == 130
        assert tail.stderr is not None
        assert tail.stderr.read() == ""


def test_receive_and_consume(gantry: Run) -> None:
    assert gantry("topic", "create", "cli-work", "--queues", "1").status == 0
    for number in range(3):
        assert (
            gantry("send", "cli-work", f"job {number}", "--queue", "broker-a:0", "--key", f"j{number}").status
            == 0
        )
    [first] = gantry("receive", "cli-work", "cli-workers", "-n", "1", "--wait", "30", "--ack", "--json").lines
    assert (first["body"], first["deliveryAttempt"]) == ("job 0", 1)
    ran = gantry(
        "consume",
        "cli-work",
        "cli-workers",
        "--exec",
        'test "$(cat)-$GANTRY_KEYS" = "job 1-j1"',
        "--max",
        "2",
        "--json",
    )
    assert ran.status == 1
    assert [(one["exitStatus"], one["result"]) for one in ran.lines] == [(0, "acked"), (1, "nacked")]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        again = gantry("receive", "cli-work", "cli-workers", "--wait", "20", "--ack", "--json").lines
        if again:
            break
    assert [(one["body"], one["deliveryAttempt"]) for one in again] == [("job 2", 2)]
    settled = gantry("ack", "cli-work", "cli-workers", again[0]["receiptHandle"], "--json")
    assert (settled.status, settled.json) == (0, {"results": [{"status": "acked"}]})  # done is done
    found = gantry("lag", "cli-workers", "--json").json
    assert {one["broker"] for one in found["queues"]} == {"broker-a", "broker-b"}
    every = {one["group"] for one in gantry("lag", "--json").json["groups"]}
    assert "cli-workers" in every


def test_a_reset_delivers_messages_again(gantry: Run) -> None:
    assert gantry("topic", "create", "cli-again", "--queues", "1").status == 0
    assert gantry("send", "cli-again", "once", "--queue", "broker-a:0").status == 0
    assert gantry("receive", "cli-again", "cli-readers", "--wait", "30", "--ack").status == 0
    until = time.monotonic() + 60
    planned: dict[str, Any] = {}
    while planned.get("replayed") != 1 and time.monotonic() < until:  # the offset follows the acknowledgement
        planned = gantry(
            "offsets", "reset", "cli-readers", "cli-again", "--to", "earliest", "--dry-run", "--json"
        ).json
    assert (planned["dryRun"], planned["replayed"], planned["skipped"]) == (True, 1, 0)
    done = gantry("offsets", "reset", "cli-readers", "cli-again", "--to", "earliest", "--yes", "--json").json
    assert (done["dryRun"], done["replayed"], len(done["queues"])) == (False, 1, 2)
    asked = gantry("offsets", "reset", "cli-readers", "cli-again", "--to", "latest")
    assert (asked.status, "use --yes" in asked.err) == (1, True)


def test_delayed_messages_are_moved_and_cancelled(gantry: Run) -> None:
    assert gantry("topic", "create", "cli-later", "--queues", "1").status == 0
    sent = [gantry("send", "cli-later", "x", "--key", "c1", "--delay", "1h", "--json").json for _ in range(2)]
    ids = [one["messageId"] for one in sent]
    moved = gantry("schedule", "move", ids[0], "--at", "+2h", "--json").json
    assert (moved["status"], moved["deliverAt"] > sent[0]["deliverAt"]) == ("moved", True)
    task = gantry("schedule", "move", "--topic", "cli-later", "--shift", "10m", "--yes", "--json").json
    assert (task["kind"], task["state"], task["done"]) == ("bulkMove", "done", 2)
    assert gantry("schedule", "cancel", *ids, "--json").lines[1]["status"] == "cancelled"
    assert gantry("schedule", "list", "--topic", "cli-later", "--json").json["schedules"] == []
    assert gantry("task", "show", task["id"], "--wait", "--json").json["state"] == "done"


def test_settings_and_doctor(gantry: Run) -> None:
    kept = gantry("broker", "show", "broker-b", "--settings", "--json").json["settings"]["fileReservedTime"]
    assert (
        gantry("broker", "set", "broker-b", f"fileReservedTime={kept}", "--json").json["settings"][
            "fileReservedTime"
        ]
        == kept
    )
    assert gantry("broker", "set", "broker-b", "fileReservedTime=never").status == 2
    assert gantry("broker", "set", "broker-b", "brokerName=x").status == 1
    found = gantry("doctor", "--json").json
    assert found["healthy"] is True
    assert {one["part"] for one in found["checks"]} == {
        "gateway", "round trip", "nameserver", "broker-a", "broker-a fast", "broker-b", "broker-b fast",
    }  # fmt: skip


def test_a_closed_pipe_ends_a_command_quietly(gantry: Run, gantry_broker: System) -> None:
    source = f"{sys.executable} -m gantrymq.cli topic list --system --json | true; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GANTRY_HTTP": gantry_broker.http}
    ran = subprocess.run(["bash", "-c", source], capture_output=True, text=True, env=environment, check=True)
    assert ran.stderr == ""
