"""What processes keep in memory: every structure of a service is listed with its bound, counted in lives, and leaks are found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from gantry_simulation.lives.drawing.draw_plan import draw_plan
from gantry_simulation.lives.life import live
from gantry_simulation.lives.memory import census as census_module
from gantry_simulation.lives.memory.census import Bound, Census, Made, bounds, class_of
from gantry_simulation.lives.memory.structures import EMPTY, FEW, LIMITED, OFF_IN_LIVES, PASSING, RELATED
from gantry_simulation.lives.planted.fault import Planted
from gantry_simulation.lives.planted.memory import PLANTED_MEMORY
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import SECOND_NS, World

ROOT = Path(__file__).parents[2]
SOURCES = (
    *(ROOT / "services" / each / "src" for each in ("broker-store", "gateway", "nameserver", "scheduler", "txn-checker")),
    ROOT / "libs/link/src",
    ROOT / "libs/chassis/src",
)  # fmt: skip
NOT_IN_A_SERVICE = ("crash_states", "simulated_files", "dump")
CONTAINERS = {"dict", "set", "deque", "OrderedDict", "defaultdict", "Counter", "Queue"}
LIVES_TO_FIND = 40
LIVES_TO_COUNT = 160


def constructor(node: ast.expr) -> str:
    """Return the name of what is called, with or without type arguments."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_container(value: ast.expr) -> bool:
    """Whether an attribute with this value holds a changing number of entries."""
    if isinstance(value, ast.Dict | ast.DictComp | ast.Set | ast.SetComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    factories = [each.value for each in value.keywords if each.arg == "default_factory"]
    return constructor(factories[0] if factories else value.func) in CONTAINERS


def attributes(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the containers that the classes of a module keep: class and attribute."""
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(owner):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None or not is_container(value):
                continue
            if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self":
                yield f"{module}:{owner.name}", target.attr
            elif isinstance(target, ast.Name) and constructor(getattr(value, "func", value)) == "field":
                yield f"{module}:{owner.name}", target.id


def kept() -> set[tuple[str, str]]:
    """Return the containers of all services."""
    return {
        found
        for source in SOURCES
        for path in source.rglob("*.py")
        if path.stem not in NOT_IN_A_SERVICE
        for found in attributes(
            ".".join(path.relative_to(source).with_suffix("").parts), ast.parse(path.read_text())
        )
    }


def listed() -> set[tuple[str, str]]:
    """Return the structures in the tables."""
    tables = (EMPTY, LIMITED, *FEW.values())
    return {
        (name, attribute.partition("<=")[0])
        for table in tables
        for name, names in table.items()
        for attribute in names.split()
    } | set(RELATED)


def test_every_structure_of_a_service_is_listed_with_its_bound() -> None:
    missing = {each for each in kept() - listed() if each[0] not in (*PASSING, *OFF_IN_LIVES)}
    assert not missing, "name these in lives/memory/structures.py, with what bounds them"


def test_every_class_in_the_tables_exists() -> None:
    assert all(isinstance(class_of(name), type) for name in (*PASSING, *OFF_IN_LIVES))
    assert bounds()


def test_lives_count_every_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A structure that no census sees has no bound at all."""
    counted: set[type] = set()
    check = Census.check

    def noting(census: Census) -> None:
        check(census)
        counted.update(census.counted)

    monkeypatch.setattr(Census, "check", noting)
    for plan in map(draw_plan, range(1, LIVES_TO_COUNT)):
        shape = plan.shape
        if shape.counts_memory and (shape.gateways or shape.has_programs or shape.checkers or shape.replicas):
            assert live(plan).violations == []
    assert {cls.__name__ for cls in bounds()} - {cls.__name__ for cls in counted} == set()


class Keeper:
    def __init__(self) -> None:
        self.kept = {1}


@pytest.mark.parametrize("empties", [True, False])
def test_what_becomes_empty_within_a_second_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, *, empties: bool
) -> None:
    def at_most(_keeper: Keeper) -> int:
        return 400

    monkeypatch.setattr(census_module, "bounds", lambda: {Keeper: [Bound("kept", at_most, True)]})
    with World(1) as world:
        loop, keeper, census = Mock(spec=ProcessLoop), Keeper(), Census(world)
        loop.name, loop.is_closed.return_value = "store-0", False
        census._made.append(Made(loop, keeper, Keeper))  # pyright: ignore[reportPrivateUsage]
        if empties:
            world.after(SECOND_NS, keeper.kept.clear)
        census.check_empty(["store-0"])
        assert [each.what for each in world.violations] == (
            [] if empties else ["Keeper.kept has 1 entries although nobody is there"]
        )


@pytest.mark.parametrize("planted", PLANTED_MEMORY, ids=lambda each: each.name)
def test_a_leak_is_found(planted: Planted) -> None:
    plans = [plan for plan in map(draw_plan, range(1, LIVES_TO_FIND + 1)) if plan.shape.counts_memory]
    with planted.planted():
        assert any(live(plan).violations for plan in plans)
