"""A system without access control stays on this machine, unless its user accepts the risk. Nothing is bound before that is checked."""

from pathlib import Path

import pytest

from gantry_guard import exposure
from gantry_launcher.access.exposure import AccessControl, is_loopback, refuse_exposed
from gantry_launcher.errors import Refused
from gantry_launcher.options import parse_up


@pytest.mark.parametrize(
    ("listen", "is_here"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("", False),
        ("192.168.1.5", False), ("mq.example.com", False), ("127.example.com", False), ("localhost.example.com", False), ("LocalHost", True), ("[::1]", True), ("::ffff:127.0.0.1", True), ("::ffff:10.0.0.1", False),
    ],
)  # fmt: skip
def test_only_addresses_of_loopback_stay_on_this_machine(listen: str, is_here: bool) -> None:
    assert is_loopback(listen) is exposure.is_loopback(listen) is is_here


@pytest.mark.parametrize(
    "words",
    ["--listen 0.0.0.0", "--listen ::", "--set gateway.listen=192.168.1.5", "--set broker-a.listen=0.0.0.0"],
)
def test_other_addresses_without_access_control_are_refused_with_two_ways_out(words: str) -> None:
    options = parse_up(["--data", "/d", *words.split()])
    with pytest.raises(Refused) as refused:
        refuse_exposed(options, has_access=False)
    assert words in str(refused.value)
    assert "./gantry access init --data /d" in str(refused.value)
    assert "--insecure" in str(refused.value)
    refuse_exposed(options, has_access=True)
    refuse_exposed(parse_up([*words.split(), "--insecure"]), has_access=False)


def test_a_permissive_process_is_as_open_as_one_without_access_control() -> None:
    words = ["--listen", "0.0.0.0", "--set", "gateway.access_mode=permissive"]
    with pytest.raises(Refused, match="access_mode=permissive"):
        refuse_exposed(parse_up(words), has_access=True)
    refuse_exposed(parse_up([*words, "--insecure"]), has_access=True)
    refuse_exposed(parse_up([*words[:3], "gateway.access_mode=enforce"]), has_access=True)


def test_loopback_works_without_access_control() -> None:
    refuse_exposed(parse_up([]), has_access=False)
    refuse_exposed(parse_up(["--set", "gateway.listen=::1"]), has_access=False)


def test_access_and_insecure_exclude_each_other() -> None:
    with pytest.raises(Refused, match="not allowed with"):
        parse_up(["--access", "--insecure"])


def test_what_is_exposed_is_said() -> None:
    assert AccessControl.ON.words("0.0.0.0") == "access control: on"
    assert "access control: permissive on 0.0.0.0" in AccessControl.PERMISSIVE.words("0.0.0.0")
    assert (
        AccessControl.OFF.words("127.0.0.1") == "access control: off, and only this machine reaches 127.0.0.1"
    )
    assert "off (--insecure) on 0.0.0.0: anyone who reaches" in AccessControl.INSECURE.words("0.0.0.0")
    assert "only this machine" in AccessControl.INSECURE.words("::1")


def test_a_refused_start_makes_nothing(tmp_path: Path) -> None:
    from gantry_launcher.commands.up import up

    with pytest.raises(Refused, match="without access control"):
        up(parse_up(["--data", str(tmp_path / "data"), "--listen", "0.0.0.0"]))
    assert [*tmp_path.iterdir()] == []
