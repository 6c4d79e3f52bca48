"""One table holds the goal of every figure of the benchmarks; a run becomes one table and JSON; a missing program is skipped with a message."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gantry_launcher.commands import bench
from peers import against
from reporting import figures, goals, table
from whole_run import plan

ROOT = Path(__file__).parents[2]


def test_every_program_is_part_of_a_whole_run_or_excluded_with_a_reason() -> None:
    planned = [step.program for step in (*plan.PLAN, *plan.REPLICATION)]
    assert len(set(planned)) == len(planned)
    assert {step.program for step in plan.PLAN}.isdisjoint(plan.BY_NAME_ONLY)
    assert {*planned, *plan.BY_NAME_ONLY} == set(bench.programs())


def test_every_goal_is_of_a_program_and_can_be_reached() -> None:
    programs = bench.programs()
    for key, goal in goals.GOALS.items():
        assert key.split(".")[0] in programs, key
        assert goal.limit > 0 or goal.floors > 0 or goal.sense == "≤", key
        assert goal.bound(1.0) == goal.limit + goal.floors, key
    for key, floor in goals.FLOORS.items():
        assert {key.split(".")[0], floor.split(".")[0]} <= set(programs), key


def test_every_profile_that_explains_a_miss_is_in_the_document() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    for goal in goals.GOALS.values():
        assert not goal.miss or f"- ({goal.miss}) " in text, goal.question


@pytest.mark.parametrize(
    ("key", "value", "floor", "verdict"),
    [
        ("store_pull.32 x 128 B", 400_000, None, "met"),
        ("store_pull.32 x 128 B", 399_999, None, "missed"),
        ("http_send.single", 8_900, 3_600, "met"),
        ("http_send.single", 7_000, 3_600, "missed"),
        ("http_send.single", 7_000, None, ""),
        ("recovery.ready", 1.6, 0.1, "met"),
        ("recovery.ready", 1.8, 0.1, "missed, (d)"),
        ("echo.bare", 1.0, None, ""),
    ],
)
def test_a_figure_is_judged_by_its_goal(key: str, value: float, floor: float | None, verdict: str) -> None:
    assert goals.verdict(goals.Figure(key, value, "x", floor)) == verdict


def test_reports_of_programs_are_printed_and_become_the_tables_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collected = tmp_path / "collected"
    monkeypatch.setenv(figures.COLLECTED, str(collected))
    figures.figure("store_pull.32 x 128 B", 995_000, "msg/s", words="12 us a pull")
    figures.figure("echo.bare", 199_000, "msg/s")
    figures.figure("latency.remoting.p50", 1.25, "ms")
    figures.figure("against.sync.send.Gantry", 20_000, "msg/s")
    figures.figure("against.sync.send.Other", 5_000, "msg/s")
    figures.figure("against.sync.late.Gantry", 2, "ms")
    figures.figure("against.sync.late.Other", 1, "ms")
    figures.skipped("Third", "it is not installed")
    output = capsys.readouterr().out
    assert "995,000 msg/s   goal ≥ 400,000 msg/s: met   12 us a pull" in output
    assert "skipped: Third: it is not installed" in output
    entries = [json.loads(line) for line in collected.read_text().splitlines()]
    program = {
        "program": "latency", "status": 0, "loadBefore": [0.5, 0.4, 0.3],
        "figures": [entry["figure"] for entry in entries if "figure" in entry],
        "skipped": [entry["skipped"] for entry in entries if "skipped" in entry],
    }  # fmt: skip
    file = tmp_path / "bench.json"
    file.write_text(
        json.dumps({"machine": "two cores", "began": "now", "quick": False, "programs": [program]})
    )
    text = table.markdown(table.judged([file]))
    assert "two cores; now.\n\nLoad before each program: 0.5 to 0.5." in text
    row = "| pull of old messages, 32 x 128 B | 995,000 msg/s | 199,000 msg/s (echo.bare) | 5.00 | ≥ 400,000 msg/s | met |"
    assert row in text
    assert "| produce → held pull at 1,000/s over remoting, p50 | 1.25 ms |  |  | ≤ 0.8 ms | missed |" in text
    assert "Goals without a figure in this run:\n\n- the same, p99 (`latency.remoting.p99`)\n" in text
    assert "| send | sync | 20,000 msg/s | 5,000 msg/s | 4.00 x as good |" in text
    assert "| late | sync | 2 ms | 1 ms | 0.50 x as good |" in text
    assert "- Third: it is not installed" in text


def test_of_several_runs_the_last_answer_to_each_question_counts(tmp_path: Path) -> None:
    def kept(name: str, programs: dict[str, float]) -> Path:
        found = [
            {
                "program": program,
                "status": 0,
                "figures": [{"key": f"{program}.rate", "value": value, "unit": "/s"}],
            }
            for program, value in programs.items()
        ]
        file = tmp_path / name
        file.write_text(json.dumps({"machine": name, "began": "then", "quick": False, "programs": found}))
        return file

    runs = [kept("first", {"echo": 1, "idle": 2}), kept("second", {"echo": 3})]
    text = table.markdown(table.judged(runs))
    assert "- first; then: idle\n- second; then: echo\n" in text
    assert "| echo: rate | 3 /s |" in text
    assert "| idle: rate | 2 /s |" in text
    assert "| echo: rate | 1 /s |" not in text


def test_tables_go_between_the_marks_of_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "document.md"
    document.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.put_into(document, "new\n")
    table.put_into(document, "newer\n")
    assert document.read_text() == f"before\n{table.BEGIN}\nnewer\n{table.END}\nafter\n"
    document.write_text("without\n")
    with pytest.raises(SystemExit, match="2"):
        table.put_into(document, "new\n")
    assert "has no marks" in capsys.readouterr().err
    document.write_text('"machine"')
    with pytest.raises(SystemExit, match="2"):
        table.judged([document])
    assert "is not a bench.json" in capsys.readouterr().err


def test_the_performance_document_accepts_the_tables_of_a_run() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert text.count(table.BEGIN) == text.count(table.END) == 1


def test_systems_that_are_not_installed_are_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert [rival.name for rival in against.rivals(["rocketmq", "nats", "rabbitmq"], "")] == [
        "Gantry",
        "NATS JetStream",
    ]
    output = capsys.readouterr().out
    assert "skipped: RocketMQ: its jars are not given: --jars" in output
    assert "skipped: RabbitMQ quorum: there is no rabbitmq-server on PATH" in output
    with pytest.raises(SystemExit, match="2"):
        against.rivals(["kafka"], "")
    assert "--against kafka: unknown system; available: rocketmq" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--bogus", "unknown: --bogus"),
        ("--only", "--only: expected at least one argument"),
        ("--only nope", "not part of a whole run: nope; available: floors"),
        ("--against nats,kafka", "--against kafka: unknown system; available: rocketmq"),
        ("--replication --only floors", "not part of a whole run: floors; available: replicated_idle"),
        ("--replication --against nats", "--replication has programs of its own"),
        ("--table nowhere.json", "nowhere.json is not a bench.json"),
        ("--into README.md", "--into needs --table FILE"),
        (f"--out {__file__}/there", "name a writable folder"),
        ("--out=", "it has no name"),
    ],
)
def test_an_impossible_run_is_refused_in_one_line(words: str, says: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bench" / "whole_run" / "run.py"), *words.split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert says in ran.stderr
    assert list(tmp_path.iterdir()) == []
