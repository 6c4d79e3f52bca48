"""Creates .venv and installs locked requirements under a lock, with progress; does nothing when they are installed.

Our own packages are not installed: a .pth file adds their source folders to the path.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON, ROOT, SOURCES, VENV, site_packages

RUN_LOCK = "requirements.lock"
TEST_LOCK = "requirements-test.lock"
SPARK_LOCK = "requirements-spark.lock"
LOAD_LOCK = "requirements-load.lock"
PTH = "gantry.pth"
SILENCE_SECONDS_MAX = 5.0

Say = Callable[[str], None]


def ensure(lock: str, say: Say) -> None:
    """Install everything that `lock` (a file of the checkout) names into .venv. Raises Refused."""
    if is_ready(lock):
        return
    try:
        with _one_at_a_time(say):
            if not is_ready(lock):
                _install(lock, say)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{PYTHON} does not answer; remove {VENV} and try again") from error
    except OSError as error:
        raise Refused(f"cannot install into {VENV}: {error.strerror or error}") from error


def _install(lock: str, say: Say) -> None:
    other = _other_checkout()
    if other is not None:
        if _is_shared_with(other):
            raise Refused(
                f"{VENV} is also the .venv of {other}, and can hold the packages of one checkout only: "
                f"remove the link {VENV}, and run the command again to make one for this checkout"
            )
        say(f"{VENV} was copied from {other}; from now on it holds the packages of {ROOT}")
    if not _works():
        say(f"making {VENV}; that and what is installed into it may take a minute or two, once")
        _run([sys.executable, "-m", "venv", "--clear", str(VENV)], say, "cannot make .venv")
    if not _has_all(lock):
        say(f"installing {lock}")
        pip = [
            str(PYTHON),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--no-input",
            "--progress-bar=off",
        ]
        _run([*pip, "--require-hashes", "-r", str(ROOT / lock)], say, f"cannot install {lock}")
    _replace(site_packages() / PTH, _pth_text())
    _replace(_stamp(lock), _digest(lock))


def _replace(path: Path, text: str) -> None:
    """Put a new file in place of `path`. Writing into the old one would change every copy of .venv made of hard links."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _other_checkout() -> Path | None:
    """Return the checkout that .venv was installed for, when that is another one that still exists."""
    try:
        lines = (site_packages() / PTH).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        for source in SOURCES:
            checkout = Path(line.removesuffix(f"/{source}"))
            if line.endswith(f"/{source}") and (checkout / "gantry").is_file():
                return None if checkout.samefile(ROOT) else checkout
    return None


def _is_shared_with(checkout: Path) -> bool:
    """Return whether .venv is the very folder that another checkout uses, through a link or a mount."""
    try:
        return VENV.samefile(checkout / VENV.name)
    except OSError:
        return False


def is_ready(lock: str) -> bool:
    """Return whether this version of the lock is installed for this checkout, by the stamp and the .pth file."""
    try:
        return (
            _stamp(lock).read_text(encoding="ascii") == _digest(lock)
            and (site_packages() / PTH).read_text(encoding="utf-8") == _pth_text()
            and PYTHON.exists()
        )
    except OSError:
        return False


def _works() -> bool:
    """Return whether .venv has a Python that runs and has pip. Its base installation may be gone."""
    if not PYTHON.exists():
        return False
    command = [str(PYTHON), "-c", "import pip, sys; raise SystemExit(sys.version_info < (3, 11))"]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def _has_all(lock: str) -> bool:
    """Return whether every pin of the lock is installed at its version, so that no package index is needed."""
    installed = {
        (_normal(name), version)
        for name, dash, version in (
            folder.name.removesuffix(".dist-info").rpartition("-")
            for folder in site_packages().glob("*.dist-info")
        )
        if dash
    }
    return all(pin in installed for pin in _pins(ROOT / lock))


def _pins(lock: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, version) of the pins that apply to this machine."""
    for line in lock.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)\s*(;[^\\]*)?", line)
        if match and _applies(match[3] or ""):
            yield _normal(match[1]), match[2]


def _applies(marker: str) -> bool:
    """Evaluate the few kinds of markers in our locks. An unknown one counts as true, and pip decides."""
    words = re.sub(
        r"(\w+) (==|!=|<|>=) '([^']*)'", lambda clause: "01"[_holds(*clause.groups())], marker.lstrip("; ")
    )
    while (simpler := re.sub(r"\(([^()]*)\)", lambda group: "01"[_any_of_all(group[1])], words)) != words:
        words = simpler
    return _any_of_all(words)


def _any_of_all(words: str) -> bool:
    return any(all(clause.strip() != "0" for clause in part.split(" and ")) for part in words.split(" or "))


def _holds(name: str, relation: str, wanted: str) -> bool:
    known = {
        "sys_platform": sys.platform,
        "platform_machine": os.uname().machine,
        "implementation_name": sys.implementation.name,
        "platform_python_implementation": "CPython",
    }
    if name in {"python_full_version", "python_version"}:
        here, there = sys.version_info[:3], tuple(int(part) for part in wanted.split("."))
        return here < there if relation == "<" else here >= there if relation == ">=" else True
    return name not in known or (known[name] == wanted) == (relation == "==")


def _run(command: list[str], say: Say, failure: str) -> None:
    """Run one installation step and print its output as progress. An interrupt ends the step."""
    with (
        _reporting_duration(say),
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
        ) as process,
    ):
        last = ""
        try:
            for line in process.stdout or ():
                last = line.strip() or last
                if last.startswith(
                    ("Collecting", "Installing", "Successfully", "ERROR", "WARNING: Retrying")
                ):
                    say("  " + last.partition(" (from ")[0][:150])
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise Refused(f"{failure}: {last[:300]}")


@contextlib.contextmanager
def _reporting_duration(say: Say) -> Generator[None]:
    """Print every few seconds how long a step has taken, because pip and venv can be silent for half a minute."""
    began, is_over = time.monotonic(), threading.Event()

    def report() -> None:
        while not is_over.wait(SILENCE_SECONDS_MAX):
            say(f"  still running, {time.monotonic() - began:.0f} s so far")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        is_over.set()
        reporter.join()


@contextlib.contextmanager
def _one_at_a_time(say: Say) -> Generator[None]:
    """Hold the lock of this checkout: an flock on its folder, which leaves no file behind."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another ./gantry that is installing")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _stamp(lock: str) -> Path:
    return VENV / f".installed-{lock}"


def _digest(lock: str) -> str:
    return hashlib.sha256((ROOT / lock).read_bytes()).hexdigest()


def _pth_text() -> str:
    return "".join(f"{ROOT / source}\n" for source in SOURCES)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
