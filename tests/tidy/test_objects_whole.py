"""Objects get everything they need through their constructor: nothing is assigned to them afterwards, and no default does nothing.

A forgotten assignment over a default that does nothing stays silent. A missing argument is an error of types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .test_tidy import named, text_of, tracked, tree_of

SOURCES = tracked("services/*/src/**/*.py", "libs/*/src/**/*.py", "client/src/**/*.py")
FILES = frozenset({"assembly.py", "__main__.py"})
ASSEMBLING = [path for path in SOURCES if path.name in FILES or "process" in path.parts]
OWN = frozenset({"self", "cls"})
COPIERS = frozenset({"copy", "deepcopy", "replace", "__new__", "__copy__"})
NOTHING = ("_nothing", "_no_", "_ignore", "_never")
EXCEPTIONS = {
    (
        "services/gateway/src/gateway/process/app.py",
        "call.status",
    ): "the outcome of a call whose client is gone",
}
"""File and target of each assignment that changes a state and connects nothing."""


def _targets(node: ast.AST) -> list[ast.expr]:
    found = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        found = [node.target]
    return [part for target in found for part in (target.elts if isinstance(target, ast.Tuple) else [target])]


def _copies(tree: ast.AST) -> set[str]:
    """Return the names of copies that were just made: what they get belongs to their construction."""
    made: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func).rpartition(".")[2]
            if called in COPIERS:
                made |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return made


def assigned_from_outside(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and target of each assignment to an attribute of another object."""
    copies = _copies(tree)
    for node in ast.walk(tree):
        for target in _targets(node):
            if not isinstance(target, ast.Attribute):
                continue
            owner = target.value
            if not (isinstance(owner, ast.Name) and owner.id in OWN | copies):
                yield node.lineno, ast.unparse(target)


def defaults_that_do_nothing(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and target of each attribute whose first value is a function, or an object, that does nothing."""
    constructors = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    for node in [part for constructor in constructors for part in ast.walk(constructor)]:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            is_nothing = value.func.id.startswith("No") and value.func.id[2:3].isupper() and not value.args
        else:
            is_nothing = isinstance(value, ast.Name) and value.id.startswith(NOTHING)
        for target in _targets(node):
            if is_nothing and isinstance(target, ast.Attribute):
                yield node.lineno, ast.unparse(target)


def test_there_are_files_that_assemble() -> None:
    assert len(ASSEMBLING) > 20


def test_nothing_is_assigned_to_an_object_that_is_built() -> None:
    found = [
        f"{named(path)}:{line}: {target}"
        for path in ASSEMBLING
        for line, target in assigned_from_outside(tree_of(path))
        if (named(path), target) not in EXCEPTIONS
    ]
    assert not found, "pass it to the constructor, or name a method for a change of state:\n" + "\n".join(
        found
    )


def test_every_exception_is_needed() -> None:
    found = {
        (named(path), target) for path in ASSEMBLING for _, target in assigned_from_outside(tree_of(path))
    }
    assert set(EXCEPTIONS) <= found


def test_no_attribute_begins_as_something_that_does_nothing() -> None:
    found = [
        f"{named(path)}:{line}: {target}"
        for path in SOURCES
        if "__init__" in text_of(path)
        for line, target in defaults_that_do_nothing(tree_of(path))
    ]
    assert not found, "make it an argument of the constructor:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("part.listener = other.take", ["part.listener"]),
        ("self.part.listener = other.take", ["self.part.listener"]),
        ("one.a, two.b = 1, 2", ["one.a", "two.b"]),
        ("part.count += 1", ["part.count"]),
        ("self.part = part", []),
        ("made = copy(part)\nmade.name = 'x'", []),
        ("made = Part.__new__(Part)\nmade.name = 'x'", []),
    ],
)
def test_an_assignment_from_outside_is_found(text: str, found: list[str]) -> None:
    assert [target for _, target in assigned_from_outside(ast.parse(text))] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("self.later: Later = _nothing", ["self.later"]),
        ("self.sync = _no_thread", ["self.sync"]),
        ("self.readers: Readers = NoReaders()", ["self.readers"]),
        ("self.later = later", []),
        ("later = _nothing", []),
    ],
)
def test_a_default_that_does_nothing_is_found(text: str, found: list[str]) -> None:
    built = f"def __init__(self):\n    {text}"
    assert [target for _, target in defaults_that_do_nothing(ast.parse(built))] == found


def test_an_end_may_replace_what_is_no_longer_called() -> None:
    text = "def close(self):\n    self.flush = _nothing_to_flush"
    assert not list(defaults_that_do_nothing(ast.parse(text)))
