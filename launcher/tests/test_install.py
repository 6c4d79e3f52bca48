"""What counts as installed, so that no package index is asked in vain."""

import sys
from pathlib import Path

import pytest

from gantry_launcher import install


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.setattr(install, "site_packages", lambda: packages)
    (tmp_path / "some.lock").write_text(
        "Fast_API==1.0 \\\n    --hash=sha256:00\nold==2 ; python_full_version < '3.11' \\\n    --hash=sha256:00\n"
        "pypy==4 ; implementation_name == 'pypy' or (platform_python_implementation == 'CPython' and sys_platform == 'win32') \\\n"
        "some==5 ; implementation_name == 'pypy' or (platform_python_implementation == 'CPython' and sys_platform != 'win32') \\\n"
        "arm==3 ; platform_machine == 'no-such-machine' and sys_platform == 'linux' \\\n    --hash=sha256:00\n"
    )
    return tmp_path


def test_pins_for_other_machines_and_pythons_are_not_missed(venv: Path) -> None:
    assert list(install._pins(venv / "some.lock")) == [("fast-api", "1.0"), ("some", "5")]


def test_what_is_installed_at_the_pinned_version_needs_no_index(venv: Path) -> None:
    assert not install._has_all("some.lock")
    (venv / "site-packages" / "fast_api-1.0.dist-info").mkdir()
    (venv / "site-packages" / "some-5.dist-info").mkdir()
    assert install._has_all("some.lock")
    said: list[str] = []
    install.ensure("some.lock", said.append)
    assert said == []
    assert install.is_ready("some.lock")


def test_another_version_or_a_changed_lock_is_not_installed(venv: Path) -> None:
    (venv / "site-packages" / "fast_api-1.0.dist-info").mkdir()
    (venv / "site-packages" / "some-5.dist-info").mkdir()
    install.ensure("some.lock", lambda _words: None)
    (venv / "some.lock").write_text("fast-api==1.1 \\\n")
    assert not install.is_ready("some.lock")
    assert not install._has_all("some.lock")


def test_our_own_packages_come_by_a_pth_file(venv: Path) -> None:
    (venv / "site-packages" / "fast_api-1.0.dist-info").mkdir()
    (venv / "site-packages" / "some-5.dist-info").mkdir()
    install.ensure("some.lock", lambda _words: None)
    lines = (venv / "site-packages" / "gantry.pth").read_text().splitlines()
    assert str(venv / "services/broker-store/src") in lines


def test_a_silent_step_is_said_to_go_on(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "SILENCE_SECONDS_MAX", 0.01)
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        (venv / "heard").touch()

    install._run(["sh", "-c", "until [ -e heard ]; do sleep 0.02; done"], say, "cannot wait")
    assert said[0].startswith("  still at it, ")
