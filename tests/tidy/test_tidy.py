"""Rules of the code base: sizes, links, documented settings, no data of a developer's machine."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from gantry_chassis.settings import describe

from .settings_tables import GUIDE, SERVICES, section, table

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 500  # a longer file has two subjects: split it by subject
FUNCTION_LINES_MAX = 60
SLEEP_SECONDS_MAX = 2
SLEEP_WITHOUT_END = 3600
"""The sleep of a task that ends only by cancellation."""


def tracked(*patterns: str) -> list[Path]:
    """Existing files of the repository: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).is_file()]


PYTHON = tracked("*.py", "gantry")
DOCUMENTS = tracked("*.md")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_link_is_tracked() -> None:
    """A tracked link in place of an environment replaces the environment of every checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_there_are_files_to_check() -> None:
    assert len(PYTHON) > 100
    assert len(DOCUMENTS) > 8


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [p for p in PYTHON if p.suffix and "tests" not in p.parts], ids=named)
def test_every_module_has_a_docstring(path: Path) -> None:
    words = ast.get_docstring(ast.parse(path.read_text()))
    assert words, "no module docstring"


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_method_without_a_body_is_abstract(path: Path) -> None:
    """A class that lacks it then fails when it is created, not at its first call."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert "NotImplementedError" not in {
                part.id for part in ast.walk(node.exc) if isinstance(part, ast.Name)
            }, f"line {node.lineno}: make it an abstractmethod of an ABC"


@pytest.mark.parametrize("path", [p for p in PYTHON if "tests" in p.parts], ids=named)
def test_no_test_sleeps_for_long(path: Path) -> None:
    """Wait for a condition, or pass a shorter setting or a fake clock."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="sleep"), args=[ast.Constant(value=int() | float() as seconds), *_]
            ):
                assert seconds <= SLEEP_SECONDS_MAX or seconds >= SLEEP_WITHOUT_END, f"line {node.lineno}"
            case _:
                pass


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_link_of_a_document_has_a_target(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        aim = (path.parent / file).resolve() if file else path
        assert aim.exists(), f"{target} does not exist"
        if anchor and aim.suffix == ".md":
            assert anchor in anchors(aim), f"{target}: no such heading"


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub generates from the headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_is_in_the_operations_guide(service: str) -> None:
    words = "run .venv/bin/python tests/tidy/settings_tables.py"
    assert section(GUIDE.read_text(), service).strip() == table(service).strip(), words


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_has_a_description(service: str) -> None:
    assert [setting.name for setting in describe(SERVICES[service]) if not setting.description] == []


def test_the_tree_has_no_data_of_a_developers_machine() -> None:
    machine = re.compile(r"(?:^|[^A-Za-z0-9_.])/(?:home|root|Users)/\w|\bfile:///")
    host = re.compile(r"https?://[^ \"]*(?:/simple/?(?:\"|$| )|/packages/[0-9a-f]{2}/[0-9a-f]{2}/)")
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = host.search(text) or (machine.search(text) if path != Path(__file__) else None)
        assert not found, f"{named(path)}: {found[0]!r}"


def test_locks_pin_with_hashes_and_name_no_index() -> None:
    for lock in tracked("requirements*.lock"):
        lines = lock.read_text().splitlines()
        pins = [line for line in lines if re.match(r"[A-Za-z0-9]", line)]
        assert len(pins) > 10
        assert all(re.match(r"[A-Za-z0-9._-]+==\S+ .*\\$", line) for line in pins), named(lock)
        assert not [line for line in lines if line.startswith("-") or "://" in line], named(lock)


def test_the_test_lock_agrees_with_the_run_lock() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))

    assert pins("requirements.lock").items() <= pins("requirements-test.lock").items()


def test_nothing_large_is_tracked() -> None:
    for path in tracked():
        assert path.stat().st_size <= 1024 * 1024, named(path)
