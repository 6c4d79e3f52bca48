"""When requirements count as installed, and which checkout a .venv belongs to."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from gantry_launcher import install
from gantry_launcher.errors import Refused


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


def test_packages_installed_at_the_pinned_version_need_no_index(venv: Path) -> None:
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


def test_a_silent_step_reports_its_duration(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "SILENCE_SECONDS_MAX", 0.01)
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        (venv / "heard").touch()

    install._run(["sh", "-c", "until [ -e heard ]; do sleep 0.02; done"], say, "cannot wait")
    assert said[0].startswith("  still running, ")


@pytest.fixture
def checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make checkouts with an empty lock file and change into one of them."""

    def go(name: str) -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for file in ("gantry", "some.lock"):
            (root / file).touch()
        monkeypatch.setattr(install, "ROOT", root)
        monkeypatch.setattr(install, "VENV", root / ".venv")
        monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
        monkeypatch.setattr(install, "site_packages", lambda: root / ".venv" / "site-packages")
        return root

    first = go("first")
    (first / ".venv" / "site-packages").mkdir(parents=True)
    install.ensure("some.lock", lambda _message: None)
    return go, first


def pth(root: Path) -> str:
    return (root / ".venv" / "site-packages" / "gantry.pth").read_text()


def test_a_venv_linked_from_another_checkout_is_refused_and_left_as_it_is(checkouts) -> None:
    go, first = checkouts
    before = pth(first)
    second = go("second")
    (second / ".venv").symlink_to(first / ".venv")
    with pytest.raises(Refused, match=f"is also the .venv of {first}.*remove the link {second / '.venv'}"):
        install.ensure("some.lock", lambda _message: None)
    assert pth(first) == before
    go("first")
    assert install.is_ready("some.lock")


@pytest.mark.parametrize("copy", [shutil.copy2, os.link], ids=["copied", "hard links"])
def test_a_venv_copied_from_another_checkout_becomes_this_ones_and_leaves_the_other_ready(
    checkouts, copy
) -> None:
    go, first = checkouts
    before, said = pth(first), list[str]()
    second = go("second")
    shutil.copytree(first / ".venv", second / ".venv", copy_function=copy)
    install.ensure("some.lock", said.append)
    assert said == [
        f"{second / '.venv'} was copied from {first}; from now on it holds the packages of {second}"
    ]
    assert install.is_ready("some.lock")
    assert str(second / "client/src") in pth(second)
    assert pth(first) == before
    go("first")
    assert install.is_ready("some.lock")


@pytest.mark.parametrize("is_moved", [False, True], ids=["linked by name", "moved"])
def test_a_checkout_that_was_moved_or_has_two_names_takes_its_venv_along(
    checkouts, *, is_moved: bool
) -> None:
    go, first = checkouts
    second = first.with_name("second")
    first.rename(second) if is_moved else second.symlink_to(first)
    said: list[str] = []
    go("second")
    install.ensure("some.lock", said.append)
    assert said == []
    assert install.is_ready("some.lock")


def test_a_venv_on_another_disk_serves_its_one_checkout(checkouts, tmp_path: Path) -> None:
    go, first = checkouts
    (first / ".venv").rename(tmp_path / "elsewhere")
    (first / ".venv").symlink_to(tmp_path / "elsewhere")
    go("first")
    (first / "some.lock").write_text("# changed\n")
    install.ensure("some.lock", lambda _message: None)
    assert install.is_ready("some.lock")
