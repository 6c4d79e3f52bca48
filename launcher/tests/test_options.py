"""Which command lines are accepted; an invalid one gives one line."""

from pathlib import Path

import pytest

from gantry_launcher.commands.completing import OWN_COMMANDS
from gantry_launcher.errors import Refused
from gantry_launcher.layout import ROOT
from gantry_launcher.main import main
from gantry_launcher.options import Set, parse_data, parse_up


def test_defaults_are_one_store_with_sync_flush_on_this_machine_only() -> None:
    options = parse_up([])
    assert options.data == ROOT / "data"
    assert (options.brokers, options.gateway_workers, options.flush, options.listen) == (
        1,
        1,
        "sync",
        "127.0.0.1",
    )
    assert (options.free_ports, options.detach, options.json) == (False, False, False)


def test_every_option_is_understood() -> None:
    words = "--data d --port-base 20000 --brokers 3 --gateway-workers 2 --flush async --listen 0.0.0.0 --detach --json"
    assert parse_up(["--timeout", "90"]).timeout_seconds == 90
    assert parse_up([]).timeout_seconds == 0
    options = parse_up(
        [*words.split(), "--set", "broker-store.segment-bytes=1048576", "--set", "gateway.token=a=b"]
    )
    assert options.data == Path("d").absolute()
    assert (options.port_base, options.brokers, options.gateway_workers) == (20000, 3, 2)
    assert (options.flush, options.listen, options.detach, options.json) == ("async", "0.0.0.0", True, True)
    assert options.sets == (Set("broker-store", "segment_bytes", "1048576"), Set("gateway", "token", "a=b"))


@pytest.mark.parametrize(
    "words",
    [
        ["--brokers", "0"],
        ["--brokers", "27"],
        ["--brokers", "two"],
        ["--gateway-workers", "65"],
        ["--port-base", "80"],
        ["--free-ports", "--port-base", "20000"],
        ["--flush", "never"],
        ["--data", ""],
        ["--set", "gateway.token"],
        ["--set", "token=x"],
        ["--det"],
        ["extra"],
    ],
)
def test_a_wrong_word_is_one_line_and_exit_status_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gantry: ")
    assert err.count("\n") == 1


def test_a_directory_is_meant_from_where_the_command_was_typed() -> None:
    (given,) = parse_up(["--set", "broker-a.store_dir=here"]).sets
    assert given.value == str(Path("here").absolute())


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upp"]) == 2
    assert "no such command: upp" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("up", "status", "down", "test", "check", "demo", "bench"):
        assert f"\n  {command} " in out


def test_help_names_every_option_of_up_and_says_that_up_may_wait_forever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--help"])
    out = capsys.readouterr().out
    for option in OWN_COMMANDS["up"].options:
        assert f" {option} " in out
    assert "wait forever" in out


def test_nothing_to_stop_is_no_failure_and_help_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down", "--data", str(tmp_path)]) == 0
    assert "nothing runs" in capsys.readouterr().err
    assert main(["status", "--data", str(tmp_path)]) == 1
    main(["--help"])
    assert "0 done (also `down` with nothing to stop), 1 failed, or `status` with nothing running" in (
        capsys.readouterr().out
    )


def test_status_and_down_take_a_directory() -> None:
    assert parse_data("status", ["--data", "/x", "--json"]) == (Path("/x"), True)
    with pytest.raises(Refused):
        parse_data("down", ["--brokers", "1"])
