"""Parts of commands without a system: lines, tables, batches, failing calls, running commands."""

import base64
import io
import json
import re
import subprocess
import sys
import zlib
from http.client import BadStatusLine
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.commands.completing import CLIENT_ACCESS
from gantry_launcher.usage import CLIENT_COMMANDS
from gantrymq.cli import calls, shapes
from gantrymq.cli.commands import groups, offsets
from gantrymq.cli.commands.sending import BATCH_MAX, batches
from gantrymq.cli.executing import Worker, environment
from gantrymq.cli.main import main, make_app
from gantrymq.cli.screen import Screen
from gantrymq.cli.stops import FAILED, NOT_FOUND, UNREACHABLE, WRONG_USE, Stop
from gantrymq.formats.compression import UnreadableBody
from gantrymq.formats.json_bodies import TEXT_BYTES_MAX, body_fields

MESSAGE: dict[str, Any] = {
    "messageId": "A1", "offsetMessageId": "B2", "topic": "orders", "broker": "broker-a", "queueId": 3, "queueOffset": 17,
    "keys": ["o-1", "o-2"], "properties": {"x": "1", "no=name": "1"}, "bornTimestamp": "2026-01-01T00:00:00.000Z",
    "storeTimestamp": "2026-01-01T00:00:00.001Z", "reconsumeTimes": 0, "tag": "paid", "body": "two\nlines",
    "receiptHandle": "H1", "deliveryAttempt": 2,
}  # fmt: skip


def plain(text: str, _colour: str) -> str:
    return text


def test_a_message_on_a_line() -> None:
    line = shapes.message_line(MESSAGE, plain)
    assert line == "2026-01-01 00:00:00.001 broker-a:3@17 [paid] #o-1 #o-2 two\\nlines"


def test_a_line_contains_no_control_characters() -> None:
    assert shapes.one_line("a\x1b[2Jb\x07") == "a\\x1b[2Jb\\x07"
    assert shapes.one_line("x" * 30, 10) == "x" * 10 + "… (30 characters)"


def test_binary_bodies_are_shown_as_base64() -> None:
    assert body_fields(b"\xff\x00") == {"bodyBase64": "/wA="}
    binary = {**MESSAGE, "body": None, "bodyBase64": "/wA="}
    assert shapes.body_bytes(binary) == b"\xff\x00"
    assert shapes.body_text(binary) == "base64:/wA="
    assert body_fields("ü🎉".encode()) == {"body": "ü🎉"}
    assert list(body_fields(b"\0" * (TEXT_BYTES_MAX + 1))) == [
        "bodyBase64"
    ]  # as JSON text it would be over the gateway's limit
    many = {**MESSAGE, "body": None, "bodyBase64": "A" * 4000}
    assert len(shapes.message_line(many, plain)) < 320


def test_a_compressed_body_is_decompressed() -> None:
    small = base64.b64encode(zlib.compress(b"one tea")).decode()
    packed = {**MESSAGE, "body": None, "bodyBase64": small, "bodyCompression": "zlib"}
    assert shapes.body_bytes(packed) == b"one tea"
    assert shapes.body_text(packed) == "one tea"
    damaged = {**packed, "bodyBase64": base64.b64encode(b"no zlib").decode()}
    with pytest.raises(UnreadableBody):
        shapes.body_bytes(damaged)
    assert shapes.body_text(damaged).startswith("zlib base64:")


@pytest.mark.parametrize(("compression", "module"), [("lz4", "lz4.frame"), ("zstd", "zstandard")])
def test_a_body_without_its_library_goes_to_no_command(
    compression: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    worker = Worker(f"cat > {tmp_path}/ran", 1)
    worker.begin({**MESSAGE, "body": None, "bodyBase64": "AAAA", "bodyCompression": compression})
    (ended,) = worker.finished(30)
    worker.stop()
    assert ended.status != 0
    assert "pip install" in ended.words
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-", "2</dev/null"])
def test_a_closed_standard_stream_fails_no_command(closed: str) -> None:
    run = "from gantrymq.cli import run; from gantrymq.cli.screen import Screen; run(); Screen(as_json=False).say('all is well')"
    command = ["sh", "-c", f'exec "$0" -c "$1" --version {closed}', sys.executable, run]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"]])
def test_a_full_standard_output_is_one_line_and_a_status(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "gantrymq.cli", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        FAILED,
        "gantrymq: cannot write the output: No space left on device\n",
    )


def test_all_fields_of_a_message_are_shown() -> None:
    fields = dict(
        shapes.message_fields({**MESSAGE, "deadLetter": {"reason": "no stock"}, "shardingKey": "s"})
    )
    assert fields["property x"] == "1"
    assert fields["dead letter reason"] == "no stock"
    assert fields["sharding key"] == "s"


@pytest.mark.parametrize("cut", range(1, 8))
def test_lines_split_anywhere_are_joined(cut: int) -> None:
    data = b"one\r\n\ntwo\nend"
    pieces = iter([data[at : at + cut] for at in range(0, len(data), cut)] + [b""])
    lines = [line for batch in batches(lambda: next(pieces)) for line in batch]
    assert lines == [b"one", b"", b"two", b"end"]


def test_many_lines_are_sent_in_batches() -> None:
    pieces = iter([b"x\n" * (BATCH_MAX * 2 + 1), b""])
    assert [len(batch) for batch in batches(lambda: next(pieces))] == [BATCH_MAX, BATCH_MAX, 1]


def test_a_table_in_a_pipe_is_plain_and_complete() -> None:
    out = io.StringIO()
    screen = Screen(as_json=False, out=out)
    screen.table(("name", "count>"), [("a" * 300, 1), ("b", None)])
    first, second, third = out.getvalue().splitlines()
    assert first.split() == ["name", "count"]
    assert second == "a" * 300 + "      1"
    assert third.split() == ["b", "-"]
    assert "\x1b" not in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_shows_complete_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Screen(as_json=False, out=out).table(("message", "body"), [("A" * 64, "x" * 64)])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert "".join(lines).count("A") == 64
    assert max(map(len, lines)) <= 40


def test_colours_appear_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen(as_json=False, out=Terminal()).paint("x", "red") == "\x1b[31mx\x1b[0m"
    assert Screen(as_json=False, out=io.StringIO()).paint("x", "red") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen(as_json=False, out=Terminal()).paint("x", "red") == "x"


def test_json_prints_one_line_only() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(as_json=True, out=out, err=err)
    screen.show({"ä": [1, None]}, lambda: screen.line("for people"))
    screen.say("beside")
    assert json.loads(out.getvalue()) == {"ä": [1, None]}
    assert out.getvalue().count("\n") == 1
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    "address", ["", "localhost", "ftp://x", "http://", "http://a:b", "http://x:99999999"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(Stop, match="is not the address of a gateway: write it like") as stopped:
        calls.base_of(address)
    assert stopped.value.status == WRONG_USE


@pytest.mark.parametrize(
    ("status", "problem", "words", "exit_status"),
    [
        (404, {"code": "TOPIC_NOT_EXIST", "detail": "topic a does not exist; create it with PUT /v1/topics/a"},
         "topic a does not exist; gantrymq topic list shows the topics, gantrymq topic create NAME creates one", NOT_FOUND),
        (400, {"code": "INVALID_PARAMETER", "detail": "queueId is 0…7"}, "--queue is 0…7", WRONG_USE),
        (422, {"code": "SUBSCRIPTION_PARSE_FAILED", "detail": "no condition", "column": 3, "expected": "a name"},
         "no condition: expected a name at column 3", WRONG_USE),
        (400, {"code": "INVALID_PARAMETER", "detail": "Input should be greater than or equal to 1", "field": "retryPolicy.multiplier"},
         "--retry-after: at least 1", WRONG_USE),
        (409, {"code": "FILTER_CONFLICT", "detail": "another filter: use the same, or changeFilter to replace it for all"},
         "another filter: use the same; --change-filter replaces it with yours, for all consumers of the group", FAILED),
        (504, {"code": "UNKNOWN_WHETHER_STORED", "detail": "unknown whether stored: retry with the same idempotency key"},
         "unknown whether stored: send it again, with the same --idempotency-key if it had one", UNREACHABLE),
        (503, {"code": "SERVICE_NOT_AVAILABLE", "detail": "broker-a is away", "retryable": True},
         "broker-a is away; try again", UNREACHABLE),
        (409, {"code": "ROTATION_OPEN", "detail": "user a has 2 secrets: end the rotation with PATCH and dropOldSecret"},
         "user a has 2 secrets; gantrymq access users set USER --drop-old-secret ends the rotation", FAILED),
        (401, {"code": "UNAUTHORIZED", "detail": "no token. Send the header Authorization: Bearer and a token"},
         "no token; give a token with --token or GANTRY_TOKEN, or a user with --access-key", FAILED),
        (401, {"code": "UNAUTHORIZED", "detail": "no token"},
         "no token; give a token with --token or GANTRY_TOKEN, or a user with --access-key", FAILED),
    ],
)  # fmt: skip
def test_a_problem_becomes_a_line(status: int, problem: dict[str, Any], words: str, exit_status: int) -> None:
    with pytest.raises(Stop) as stopped:
        calls.answer_of(status, "application/problem+json", json.dumps(problem).encode(), "http://x")
    assert (stopped.value.words, stopped.value.status) == (words, exit_status)


def test_an_answer_of_another_program_is_reported() -> None:
    with pytest.raises(Stop, match=r"not as a gateway of Gantry \(status 200, text/html") as stopped:
        calls.answer_of(200, "text/html; charset=utf-8", b"<html>", "http://x")
    assert stopped.value.status == UNREACHABLE


def test_an_address_without_a_scheme_is_http() -> None:
    assert calls.base_of("localhost:8080") == "http://localhost:8080"


def test_a_list_with_all_brokers_down_is_not_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Any] = {
        "/v1/groups": {"groups": []},
        "/v1/topics": {"topics": []},
        "/v1/cluster": {"missing": ["broker-a"]},
    }
    monkeypatch.setattr(calls.Calls, "call", lambda *words, **_: answers[words[2]])
    for words in (["group", "list"], ["topic", "list"], ["lag"]):
        assert main([*words, "--http", "127.0.0.1:1"]) == UNREACHABLE
        assert ": broker-a down; gantrymq doctor looks for the reason" in capsys.readouterr().err


def test_replicas_are_shown_with_their_leader_and_what_nobody_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = {"name": "a", "brokerId": 0, "address": "h:1", "role": "leader", "epoch": 3, "endOffset": 9, "behindBytes": 0, "behindMs": 0, "inSync": True, "isFit": False}  # fmt: skip
    silent = dict.fromkeys(leader) | {
        "name": "",
        "brokerId": 1,
        "address": "h:2",
        "role": "unknown",
        "behindBytes": 70,
    }
    group = {
        "broker": "broker-a",
        "leader": "a",
        "registerFault": "no answer for 4 s",
        "replicas": [leader, silent],
    }
    monkeypatch.setattr(calls.Calls, "call", lambda *_words, **_: {"groups": [group], "missing": []})
    assert main(["cluster", "replicas", "--http", "127.0.0.1:1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["broker-a", "a", "0", "leader", "3", "yes", "no", "0", "0"] in lines
    assert ["broker-a", "h:2", "1", "unknown", "?", "?", "?", "70", "?"] in lines
    assert lines[-1] == ["broker-a:", "the", "register:", "no", "answer", "for", "4", "s"]


def test_an_answer_that_is_not_a_gateways_is_reported() -> None:
    with pytest.raises(Stop, match="not as a gateway of Gantry") as stopped:
        calls.answer_of(404, "application/json", b'{"error":"no such resource"}', "http://x")
    assert stopped.value.status == UNREACHABLE
    assert "answers nothing, or not in HTTP" in calls.unreached(BadStatusLine("INFO"), "http://x").words
    assert calls.unreached(BrokenPipeError(), "http://x", 50_000_000).status == WRONG_USE


def test_parameters_have_the_gateways_format() -> None:
    given = {"from_": "t", "offsets": False, "max": 3, "topic": None, "key": ""}
    assert calls.query_of(given) == {"from": "t", "offsets": "false", "max": "3"}


def test_paths_quote_what_users_name() -> None:
    assert calls.path_of("topics", "%RETRY%g/..", "messages") == "/v1/topics/%25RETRY%25g%2F../messages"
    assert calls.path_of("groups", "g:pause") == "/v1/groups/g:pause"


def test_policies_and_ages_are_formatted() -> None:
    assert groups.policy_words(None) == "levels"
    assert groups.policy_words({"type": "list", "delaysMs": [1000, 90_000, 86_400_000, 5]}) == "1s,90s,1d,5ms"
    grows = {"type": "exponential", "initialMs": 1000, "multiplier": 2.0, "maxMs": 60_000}
    assert groups.policy_words(grows) == "1s*2<1m"
    assert [offsets.age_words(ms) for ms in (0, 1500, 130_000, 8_000_000, 400_000_000)] == [
        "",
        "1.5s",
        "2m",
        "2h",
        "4d",
    ]


def test_a_command_gets_the_message_and_its_end_is_reported() -> None:
    worker = Worker(
        'read body; test "$body-$GANTRY_TAG-$GANTRY_KEYS" = "two-paid-o-1 o-2" || exit 9; echo said >&2; exit 3',
        1,
    )
    worker.begin(MESSAGE)
    assert worker.room == 0
    finished = worker.finished(60)
    worker.stop()
    assert finished == [("H1", "A1", 3, "exit status 3: said")]
    assert worker.room == 1


def test_a_worker_stops_its_commands() -> None:
    worker = Worker("sleep 600; true", 1)
    worker.begin(MESSAGE)
    assert worker.finished(0.3) == []
    worker.stop()
    assert worker.finished(60) == [("H1", "A1", -15, "ended by signal 15")]


def test_a_message_that_no_command_can_take_is_reported() -> None:
    worker = Worker("true", 1)
    worker.begin({**MESSAGE, "tag": "a\0b"})
    [finished] = worker.finished(60)
    worker.stop()
    assert (finished.status, finished.words) == (127, "cannot run the command: embedded null byte")


def test_invalid_environment_names_are_omitted() -> None:
    found = environment(MESSAGE)
    assert found["GANTRY_PROPERTY_x"] == "1"
    assert found["GANTRY_ATTEMPT"] == "2"
    assert not any("no=name" in name for name in found)


def test_the_launcher_knows_every_command() -> None:
    app = make_app()
    words = [one.name for one in app.registered_commands] + [one.name for one in app.registered_groups]
    assert sorted(map(str, words)) == sorted(CLIENT_COMMANDS)


def test_the_launcher_completes_every_word_after_access() -> None:
    [access] = [group.typer_instance for group in make_app("access").registered_groups]
    words = [one.name for one in access.registered_commands] + [one.name for one in access.registered_groups]
    assert tuple(words) == CLIENT_ACCESS
