"""A service's files are private to its user, even where an earlier run left them open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantry_chassis.machine import private_files
from gantry_chassis.machine.private_files import private_directory, read_secret, warn_if_readable


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    words: list[tuple[str, dict[str, object]]] = []

    class Log:
        def info(self, text: str, **fields: object) -> None:
            words.append((text, fields))

        warning = info

    monkeypatch.setattr(private_files, "_log", Log())
    return words


def test_a_new_directory_is_private_without_a_warning(tmp_path: Path, said) -> None:
    old = os.umask(0o022)
    try:
        private_directory(tmp_path / "new")
    finally:
        os.umask(old)
    assert mode(tmp_path / "new") == 0o700
    assert said == []


@pytest.mark.parametrize("before", [0o755, 0o777, 0o710, 0o704])
def test_a_directory_open_to_others_is_closed_and_logged(tmp_path: Path, said, before: int) -> None:
    tmp_path.chmod(before)
    private_directory(tmp_path)
    assert mode(tmp_path) == 0o700
    ((words, fields),) = said
    assert "now only its owner can" in words
    assert (fields["before"], fields["mode"]) == (f"{before:04o}", "0700")


def test_a_directory_that_cannot_be_closed_is_used_and_logged(
    tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    private_directory(tmp_path)
    assert "cannot be closed" in said[0][0]


def test_every_file_of_a_service_is_private() -> None:
    code = """
import os, sys, tempfile
from pathlib import Path
from gantry_chassis.process import run
async def main(life):
    folder = Path(tempfile.mkdtemp())
    (folder / "file").write_text("")
    (folder / "folder").mkdir()
    print(*(oct(path.stat().st_mode & 0o777) for path in (folder / "file", folder / "folder")))
os.umask(0o022)
run(main, service="trial")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "0o600 0o700\n"


def test_a_secret_is_the_content_of_its_file_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    assert read_secret(str(tmp_path / "token")) == "s3cret"
    assert read_secret("") == ""


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o400, False), (0o440, True), (0o644, True)])
def test_a_secret_that_others_can_read_is_warned_about(tmp_path: Path, said, mode: int, warns: bool) -> None:
    path = tmp_path / "server.key"
    path.write_text("a key")
    path.chmod(mode)
    assert warn_if_readable(str(path), "the key") == warns
    assert [fields["fix"] for _words, fields in said] == [f"chmod 600 {path}"] * warns
    assert not warn_if_readable(str(tmp_path / "missing"), "the key")
