"""Services take clocks, randomness and threads from their `Environment`, the SDK from its `Machine`, so that a simulation can replace them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .test_tidy import named, tracked

MODULES = frozenset({"time", "random", "secrets"})
NAMES = frozenset(
    {
        "os.urandom",
        "os.getpid",
        "datetime.now",
        "datetime.datetime.now",
        "threading.Thread",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)
METHODS = frozenset({"run_in_executor"})
CLASSES = frozenset({"ThreadPoolExecutor", "ProcessPoolExecutor"})
TYPES = frozenset({"random.Random"})
"""Allowed as the type of an argument, but not as a call."""
FREE = {
    "libs/chassis/src/gantry_chassis/machine/environment.py": "makes the Environment of this machine",
    "libs/chassis/src/gantry_chassis/machine/fine_timer.py": "is a timer of the kernel; other loops have their own",
    "libs/chassis/src/gantry_chassis/logs/writer.py": "writes the process's log, whatever runs in the process",
    "libs/chassis/src/gantry_chassis/process.py": "signals its own process",
    "client/src/gantrymq/machine.py": "is the Machine of this machine",
    "client/src/gantrymq/consumer/push/threads.py": "runs listeners of users that block; simulated ones do not",
    "client/src/gantrymq/producer/selectors.py": "has functions that users pass without a client",
    "libs/link/src/gantry_link/connections/pool.py": "a tool outside of services and SDK passes no random numbers",
    "services/broker-store/src/broker_store/log/files/crash_states.py": "draws crash states by a seed; no part of a running store",
}
LAST_NAMES = METHODS | {name.rpartition(".")[2] for name in NAMES}
PROGRAMS = ("cli", "blocking", "systems", "testing")
"""Folders of the SDK that no simulated process uses."""
SOURCES = [
    path
    for path in tracked("services/*/src/**/*.py", "libs/*/src/**/*.py", "client/src/**/*.py")
    if not named(path).startswith(tuple(f"client/src/gantrymq/{folder}/" for folder in PROGRAMS))
]


def _found(text: str) -> Iterator[str]:
    """Yield the line and the name of each access to the machine."""
    tree = ast.parse(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield f"{node.lineno}: from {node.module} import {', '.join(name.name for name in node.names)}"
        elif isinstance(node, ast.Attribute):
            is_of_module = isinstance(node.value, ast.Name) and node.value.id in MODULES
            if not is_of_module and node.attr not in LAST_NAMES:
                continue
            name = ast.unparse(node)
            is_of_machine = is_of_module or name in NAMES
            if node.attr in METHODS or (is_of_machine and (name not in TYPES or id(node) in called)):
                yield f"{node.lineno}: {name}"
        elif isinstance(node, ast.Name) and node.id in CLASSES:
            yield f"{node.lineno}: {node.id}"


def test_services_and_the_sdk_access_the_machine_only_through_their_environment() -> None:
    found = [
        f"{named(path)}:{line}"
        for path in SOURCES
        if named(path) not in FREE
        for line in _found(path.read_text())
    ]
    assert not found, "take these from Environment, in the SDK from gantrymq.machine.Machine:\n" + "\n".join(
        found
    )


@pytest.mark.parametrize("name", list(FREE))
def test_an_exception_that_is_not_needed_leaves_the_list(name: str) -> None:
    path = next((path for path in SOURCES if named(path) == name), None)
    assert path is not None, f"{name} does not exist"
    assert list(_found(path.read_text())), f"{name} does not access the machine: remove it"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import time\nnow = time.time()\n", 1),
        ("from time import monotonic\n", 1),
        ("import random\ndef f(rng: random.Random) -> float: return rng.random()\n", 0),
        ("import random\nrng = random.Random()\n", 1),
        ("import os, secrets\nclock = (os.urandom, secrets.token_hex)\n", 2),
        ("from datetime import datetime\nhour = datetime.now().hour\n", 1),
        ("import threading\nthreading.Thread(target=print).start()\n", 1),
        ("async def f(loop): await loop.run_in_executor(None, print)\n", 1),
        ("async def f(self): return self.loop.time()\n", 0),
    ],
)
def test_an_access_to_the_machine_is_found(text: str, count: int) -> None:
    assert len(list(_found(text))) == count
