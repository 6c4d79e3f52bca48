"""The credentials of a command: where they come from, and that none of them is an argument or belongs to another gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.cli import credentials
from gantrymq.cli.credentials import Kept, authorization_of, credentials_file, keep_token, kept_tokens
from gantrymq.cli.main import main
from gantrymq.cli.stops import Stop

HERE, THERE = "http://127.0.0.1:8080", "http://127.0.0.1:8081"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "gantrymq" / "credentials"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GANTRY_CREDENTIALS", "GANTRY_TOKEN", "GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    return path


def secret_in(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_token_is_kept_for_its_gateway_alone_and_for_its_user_alone(kept: Path) -> None:
    keep_token(credentials_file(), HERE, Kept("gantry_1", "t1"))
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert authorization_of(HERE, "", "", None) == "Bearer gantry_1"
    assert authorization_of(THERE, "", "", None) == ""
    keep_token(kept, THERE, Kept("gantry_2", "t2"))
    keep_token(kept, HERE, None)
    assert kept_tokens(kept) == {THERE: Kept("gantry_2", "t2")}


def test_what_was_given_counts_before_what_was_kept(kept: Path, tmp_path: Path) -> None:
    keep_token(kept, HERE, Kept("gantry_1", "t1"))
    assert authorization_of(HERE, "gantry_9", "", None) == "Bearer gantry_9"
    secret = secret_in(tmp_path / "secret", "b\nmore\n")
    assert authorization_of(HERE, "", "a", secret) == "Basic YTpi"
    assert authorization_of(HERE, "gantry_9", "a", secret) == "Bearer gantry_9"


def test_the_environment_gives_a_secret_to_a_named_user(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_SECRET_KEY", "b")
    assert authorization_of(HERE, "", "a", None) == "Basic YTpi"
    assert authorization_of(HERE, "", "", None) == ""


def test_a_file_that_others_may_read_is_refused_with_what_to_type(kept: Path) -> None:
    keep_token(kept, HERE, Kept("gantry_1", "t1"))
    kept.chmod(0o644)
    with pytest.raises(Stop, match=rf"\(mode 0644\): chmod 600 {kept}"):
        authorization_of(HERE, "", "", None)
    assert authorization_of(HERE, "gantry_9", "", None) == "Bearer gantry_9"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"http://x":1}'])
def test_a_damaged_file_is_named(kept: Path, text: str) -> None:
    kept.parent.mkdir(parents=True)
    secret_in(kept, text).chmod(0o600)
    with pytest.raises(Stop, match=str(kept)):
        authorization_of(HERE, "", "", None)


@pytest.mark.parametrize(
    ("access_key", "text", "says"),
    [
        ("", "s", "--secret-file: name its user with --access-key"),
        ("a:b", "s", "a user name with a colon"),
        ("a", "", "holds no secret"),
        ("a", "\nsecond", "holds no secret"),
        ("a", "x" * 1025, "longer than 1024"),
    ],
)
def test_wrong_secrets_are_named_without_being_shown(
    kept: Path, tmp_path: Path, access_key: str, text: str, says: str
) -> None:
    with pytest.raises(Stop, match=says):
        authorization_of(HERE, "", access_key, secret_in(tmp_path / "secret", text))


def test_without_a_terminal_no_secret_is_asked_for(kept: Path) -> None:
    with pytest.raises(Stop, match="use --secret-file or GANTRY_SECRET_KEY"):
        authorization_of(HERE, "", "a", None)


def test_a_typed_secret_is_not_echoed(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    asked: list[str] = []

    def getpass(question: str) -> str:
        asked.append(question)
        return "b"

    monkeypatch.setattr(credentials.sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", getpass)
    assert authorization_of(HERE, "", "a", None) == "Basic YTpi"
    assert asked == ["Secret of a: "]


def test_no_option_takes_a_secret(capsys: pytest.CaptureFixture[str], kept: Path) -> None:
    assert main(["topic", "list", "--secret-key", "s"]) == 2
    assert "No such option" in capsys.readouterr().err
    assert main(["topic", "list", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--secret-file" in shown
    assert "--access-key" in shown
