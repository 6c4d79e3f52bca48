"""Rules of the code base: sizes, links, documented settings, no data of a developer's machine."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gantry_chassis.settings.loading import describe

from . import rights_tables
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


@cache
def text_of(path: Path) -> str:
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def where_it_bends(tree: ast.Module) -> str:
    """Say between which definitions the fewest names are shared, both parts having a quarter of the lines at least."""
    definitions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    used = [{part.id for part in ast.walk(node) if isinstance(part, ast.Name)} for node in definitions]
    end = definitions[-1].end_lineno or 0
    bends = [
        (sum(above.name in names for above in definitions[:at] for names in used[at:])
         + sum(below.name in names for below in definitions[at:] for names in used[:at]), at)
        for at in range(1, len(definitions))
        if end / 4 <= definitions[at].lineno <= end * 3 / 4
    ]  # fmt: skip
    if not bends:
        return "one definition takes more than half of it"
    shared, at = min(bends)
    return (
        f"it bends before {definitions[at].name} (line {definitions[at].lineno}): {shared} uses cross there"
    )


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


def test_the_bend_of_a_long_file_is_named() -> None:
    one, other = (
        f"class {name}:\n    x = 1\n\n\ndef of_{name}() -> {name}: ...\n\n\n" for name in ("A", "B")
    )
    assert "before B (line 8): 0 uses cross" in where_it_bends(ast.parse(one + other))
    assert "one definition" in where_it_bends(ast.parse("class A:\n    x = 1\n"))


def test_files_and_functions_are_short() -> None:
    found: list[str] = []
    for path in PYTHON:
        lines = text_of(path).count("\n")
        if lines > FILE_LINES_MAX:
            found.append(f"{named(path)}: {lines} lines; {where_it_bends(tree_of(path))}")
        for node in functions_of(path):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                found.append(f"{named(path)}:{node.lineno}: {node.name} has {length} lines")
    assert not found, "\n".join(found)


def test_every_module_has_a_docstring() -> None:
    modules = [path for path in PYTHON if path.suffix and "tests" not in path.parts]
    assert [named(path) for path in modules if not ast.get_docstring(tree_of(path))] == []


def test_a_method_without_a_body_is_abstract() -> None:
    """A class that lacks it then fails when it is created, not at its first call."""
    found = [
        f"{named(path)}:{node.lineno}: make it an abstractmethod of an ABC"
        for path in PYTHON
        if "NotImplementedError" in text_of(path)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Raise) and node.exc is not None
        and "NotImplementedError" in {part.id for part in ast.walk(node.exc) if isinstance(part, ast.Name)}
    ]  # fmt: skip
    assert not found, "\n".join(found)


def test_no_test_sleeps_for_long() -> None:
    """Wait for a condition, or pass a shorter setting or a fake clock."""
    found: list[str] = []
    for path in PYTHON:
        if "tests" not in path.parts or "sleep" not in text_of(path):
            continue
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="sleep"),
                    args=[ast.Constant(value=int() | float() as seconds), *_],
                ) if SLEEP_SECONDS_MAX < seconds < SLEEP_WITHOUT_END:
                    found.append(f"{named(path)}:{node.lineno}: sleeps {seconds} s")
                case _:
                    pass
    assert not found, "\n".join(found)


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


def test_every_row_of_rights_is_in_the_guide_of_access() -> None:
    words = "run .venv/bin/python tests/tidy/rights_tables.py"
    guide = rights_tables.section(rights_tables.GUIDE.read_text())
    assert guide.strip() == rights_tables.rights_tables().strip(), words


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
