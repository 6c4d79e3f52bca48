"""Settings have layers and bounds, and an error names their source."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from gantry_chassis.settings.loading import (
    FAST_PATHS,
    MASK,
    SettingsRefused,
    describe,
    has_fast_paths,
    help_text,
    load_settings,
    masked,
    parse_arguments,
    settings_or_exit,
)


class Knobs(msgspec.Struct, frozen=True):
    port: Annotated[int, Meta(ge=0, le=65535, description="TCP port.")] = 10911
    flush: str = "sync"
    token: Annotated[str, Meta(extra={"secret": True})] = ""
    origins: tuple[str, ...] = ()
    trace: bool = False
    level: Literal["debug", "info", "error"] = "info"
    folder: Path = Path("data")


def test_a_stronger_layer_wins(tmp_path: Path) -> None:
    file = tmp_path / "knobs.toml"
    file.write_text('port = 1\nflush = "async"\ntoken = "from-file"\n')
    environ = {"KNOBS_PORT": "2", "KNOBS_TOKEN": "from-environment"}
    knobs = load_settings(Knobs, "KNOBS", ["-c", str(file), "--set", "port=3"], environ=environ)
    assert (knobs.port, knobs.token, knobs.flush, knobs.trace) == (3, "from-environment", "async", False)


def test_text_becomes_the_type_of_the_setting() -> None:
    words = ["--set", "origins=a, b", "--set", "trace=true", "--set", "folder=/x/y"]
    knobs = load_settings(Knobs, "KNOBS", words, environ={})
    assert (knobs.origins, knobs.trace, knobs.folder) == (("a", "b"), True, Path("/x/y"))


def test_a_value_out_of_bounds_names_setting_source_and_bound() -> None:
    with pytest.raises(SettingsRefused, match=r"port \(from KNOBS_PORT\): .*<= 65535"):
        load_settings(Knobs, "KNOBS", [], environ={"KNOBS_PORT": "70000"})


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--set", "prt=1"], "unknown setting 'prt'; known: flush"),
        (["--set", "port"], "write name=value"),
        (["--set"], "needs a value"),
        (["--set", "level=loud"], "'loud'; it may be debug, info or error"),
        (["--frobnicate"], "unknown argument '--frobnicate'"),
        (["-c", "/nonexistent/file.toml"], "cannot read the settings file"),
    ],
)
def test_an_unreadable_value_is_refused_with_a_reason(words: list[str], complaint: str) -> None:
    with pytest.raises(SettingsRefused, match=complaint):
        load_settings(Knobs, "KNOBS", words, environ={})


def test_options_and_switches_of_a_service_are_parsed() -> None:
    arguments = parse_arguments(["-n", "a:1", "-p"], options={"-n": "nameservers"}, switches=("-p", "-m"))
    assert arguments.sets == {"nameservers": "a:1"}
    assert arguments.switches == {"-p"}


def test_secrets_are_masked_only_when_set() -> None:
    assert masked(Knobs(token="abc"))["token"] == MASK
    assert masked(Knobs())["token"] == ""


def test_every_setting_is_described() -> None:
    settings = {setting.name: setting for setting in describe(Knobs)}
    assert list(settings) == ["port", "flush", "token", "origins", "trace", "level", "folder"]
    assert settings["port"].description == "TCP port."
    assert settings["token"].secret
    assert "port (int, default 10911)" in help_text(Knobs, "knobs")


def test_a_refused_start_is_one_line_and_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        settings_or_exit(Knobs, "broker-store", ["--set", "port=x"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "are_on"), [({}, True), ({FAST_PATHS: "1"}, True), ({FAST_PATHS: "0"}, False)]
)
def test_fast_paths_are_on_unless_the_environment_turns_them_off(environ, are_on):
    assert has_fast_paths("gateway", environ) is are_on


def test_a_switch_of_fast_paths_that_is_neither_on_nor_off_refuses_the_start(capsys):
    with pytest.raises(SystemExit) as end:
        has_fast_paths("gateway", {FAST_PATHS: "no"})
    assert end.value.code == 2
    assert "GANTRY_FAST_PATHS" in capsys.readouterr().err
