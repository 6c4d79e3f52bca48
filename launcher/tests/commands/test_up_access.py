"""`up` with access control: `--access` makes keys and first user, and the secret is forgotten once the system is ready."""

import json
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.access.keys import default_folder, keys_in_use, switch_on
from gantry_launcher.commands import up as up_command
from gantry_launcher.commands.status import _table
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions, parse_up
from gantry_launcher.serving.serve import forget_first_user


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[UpOptions]:
    """The starts that `up` asked for; nothing is installed or started."""
    starts: list[UpOptions] = []

    def start(options: UpOptions, _lock: int) -> int:
        starts.append(options)
        return 0

    monkeypatch.setattr(up_command, "_start", start)
    monkeypatch.setattr(up_command, "_let_signals_interrupt", lambda: None)
    monkeypatch.setattr(up_command.install, "ensure", lambda *_: None)
    monkeypatch.setattr(up_command.os, "umask", lambda _mode: 0)
    return starts


def test_access_makes_the_keys_and_shows_the_secret_once(
    started: list[UpOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataDir(tmp_path / "data")
    words = ["--data", str(data.path), "--access", "--listen", "0.0.0.0"]
    assert up_command.up(parse_up(words)) == 0
    keys = keys_in_use(data)
    assert keys is not None
    secret = json.loads(keys.initial_user.read_text())["password"]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count(secret) == 1
    assert "user admin" in shown.err
    assert up_command.up(parse_up(words)) == 0
    assert secret not in capsys.readouterr().err
    assert len(started) == 2
    assert data.path.stat().st_mode & 0o777 == 0o700


def test_a_directory_with_keys_may_listen_anywhere_and_one_that_lost_them_does_not_start(
    started: list[UpOptions], tmp_path: Path
) -> None:
    data = DataDir(tmp_path / "data")
    switch_on(data, default_folder(data), "admin")
    words = ["--data", str(data.path), "--listen", "0.0.0.0"]
    assert up_command.up(parse_up(words)) == 0
    default_folder(data).key_file.unlink()
    for more in ([], ["--insecure"], ["--access"]):
        with pytest.raises(Refused, match="is missing"):
            up_command.up(parse_up([*words, *more]))
    assert len(started) == 1


def test_a_ready_system_has_no_file_with_the_secret(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    switch_on(data, default_folder(data), "admin")
    keys = keys_in_use(data)
    assert keys is not None
    for _ in range(2):
        forget_first_user(keys)
        assert [path.name for path in keys.path.iterdir()] == ["access.key"]


@pytest.mark.parametrize("access", AccessControl)
def test_status_says_how_the_system_decides(access: AccessControl) -> None:
    state: dict[str, Any] = {
        "processes": [], "brokers": [], "http": "h", "nameserver": "n", "listen": "0.0.0.0", "accessControl": access.value,
    }  # fmt: skip
    assert _table(state).splitlines()[-1] == access.words("0.0.0.0")
