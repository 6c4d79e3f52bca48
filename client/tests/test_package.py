"""client/pyproject.toml agrees with the code and with the checkout. Builds nothing."""

import ast
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import gantrymq
from gateway.process.openapi import VERSION

ROOT = Path(__file__).parents[2]
PACKAGE = tomllib.loads((ROOT / "client/pyproject.toml").read_text())
PROJECT = PACKAGE["project"]
EXTRAS = {name: set(needs) for name, needs in PROJECT["optional-dependencies"].items()}
LIBRARIES = PACKAGE["tool"]["hatch"]["build"]["hooks"]["custom"]["libraries"]
FOLDERS = {
    "gantrymq": ROOT / "client/src/gantrymq",
    **{name: ROOT / place for name, place in LIBRARIES.items()},
}
OF_EXTRA = {"cli": ("gantrymq/cli",), "certs": ("gantrymq/cli/certificates.py",), "http": ("gantrymq/http",), "testing": ("gantrymq/testing",), "uvloop": ("gantrymq/blocking",)}  # fmt: skip
"""Parts that need more than the rest."""


def imported(path: Path) -> set[str]:
    """Packages that a file imports anywhere, those of Python itself left out."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"__future__"}


def names(requirements: set[str]) -> set[str]:
    return {one.partition(">=")[0] for one in requirements}


def test_every_import_is_in_the_wheel_or_required() -> None:
    for name, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            place = f"{name}/{path.relative_to(folder).as_posix()}"
            allowed = {*FOLDERS, *names(set(PROJECT["dependencies"]))}
            for extra, parts in OF_EXTRA.items():
                allowed |= names(EXTRAS[extra]) if place.startswith(parts) else set()
            assert imported(path) <= allowed, place
        assert (folder / "py.typed").is_file()


def test_bounds_and_version_are_those_of_the_checkout() -> None:
    checkout = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = {*checkout["project"]["dependencies"], *checkout["dependency-groups"]["test"]}
    assert {*PROJECT["dependencies"]}.union(*EXTRAS.values()) <= known
    for name in ("requires-python", "license"):
        assert PROJECT[name] == checkout["project"][name]
    assert gantrymq.__version__ == checkout["project"]["version"] == VERSION


def test_entry_points_exist() -> None:
    module, _, function = PROJECT["scripts"]["gantrymq"].partition(":")
    assert callable(getattr(import_module(module), function))
    [(name, place)] = PROJECT["entry-points"]["pytest11"].items()
    plugin = import_module(place)
    assert name == place  # pytest then knows it is loaded where a conftest.py names it too
    assert {"gantry_broker", "gantry_options", "pytest_addoption"} <= set(vars(plugin))
