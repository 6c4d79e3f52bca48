"""Counts what the processes of a life keep in memory. Each structure that is too large is a violation, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sized
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from gantry_simulation.lives.memory.structures import (
    EMPTY,
    FEW,
    FEW_MAX,
    LIMITED,
    RELATED,
    SMALL,
    TURN_MAX,
    Names,
)
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import World

LOOKS, LOOK_SECONDS = 120, 0.07
"""Together longer than a thread may take for a wake and its report: each may stall for 3 s (`Pace`)."""

SERVER = "gantry_link.serving.server:RemotingServer"


class Bound(NamedTuple):
    """The bound of one structure."""

    attribute: str
    limit: Callable[[Any], int]
    is_empty_when_quiet: bool


class Made(NamedTuple):
    """An object of a listed class, or of one that derives from it, and the process that made it."""

    loop: ProcessLoop
    owner: Any
    listed: type


@cache
def bounds() -> dict[type, list[Bound]]:
    """Return the bounds of all listed classes."""
    found: dict[str, list[Bound]] = {}

    def add(names: Names, limit_of: Callable[[str, str], Callable[[Any], int]], *, quiet: bool) -> None:
        for name, attributes in names.items():
            for attribute in attributes.split():
                limit = limit_of(name, attribute)
                found.setdefault(name, []).append(Bound(attribute.partition("<=")[0], limit, quiet))

    add(EMPTY, lambda _name, _attribute: lambda _owner: FEW_MAX, quiet=True)
    add(LIMITED, _limit_of, quiet=False)
    for names in FEW.values():
        add(names, lambda _name, _attribute: lambda _owner: FEW_MAX, quiet=False)
    for (name, attribute), limit in RELATED.items():
        found.setdefault(name, []).append(Bound(attribute, limit, is_empty_when_quiet=False))
    return {class_of(name): each for name, each in found.items()}


def class_of(name: str) -> type:
    """Return a class by its name in the tables."""
    module, _, qualified = name.partition(":")
    return cast("type", getattr(import_module(module), qualified))


def _limit_of(name: str, attribute: str) -> Callable[[Any], int]:
    text = attribute.partition("<=")[2]
    more = TURN_MAX if text.endswith("+") else 0
    constant = text.rstrip("+")
    if constant.startswith("."):
        return lambda owner: getattr(owner, constant[1:])
    module = import_module(name.partition(":")[0])
    return lambda _owner: getattr(module, constant) + more


class Census:
    """Knows every object of a listed class that a process made during `taken`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[Made] = []
        self._reported: set[tuple[type, str]] = set()
        self.counted: set[type] = set()
        """Classes of which an object was counted."""

    @contextmanager
    def taken(self) -> Generator[Census]:
        """Take it, with small caches."""
        with ExitStack() as stack:
            for module, constants in SMALL.items():
                for name, limit in constants.items():
                    stack.enter_context(patch.object(import_module(module), name, limit))
            for cls in (*bounds(), class_of(SERVER)):
                stack.enter_context(patch.object(cls, "__init__", self._noting(cls)))
            yield self

    def _noting(self, cls: type) -> Callable[..., None]:
        right, made = cast("Callable[..., None]", cls.__init__), self._made

        def init(owner: object, /, *arguments: Any, **options: Any) -> None:
            right(owner, *arguments, **options)
            loop = asyncio._get_running_loop()  # noqa: SLF001 - None outside, where get_running_loop raises
            if isinstance(loop, ProcessLoop):
                made.append(Made(loop, owner, cls))

        return init

    def check(self) -> None:
        """Compare every structure of every running process with its limit."""
        self._made[:] = [each for each in self._made if not each.loop.is_closed()]
        table = bounds()
        for loop, owner, listed in self._made:
            self.counted.add(listed)
            for attribute, limit, _ in table.get(listed, ()):
                size = _size(owner, attribute)
                if size > limit(owner):
                    self._violate(loop, owner, attribute, f"has {size} entries, the limit is {limit(owner)}")

    def check_empty(self, processes: Collection[str]) -> None:
        """Find what these processes keep for clients that are gone. Lets time pass.

        Servers have calls of their own under way, and disks may be slow: kept is what is empty in none of LOOKS.
        """
        self.check()
        table = bounds()
        kept = [
            (loop, owner, attribute)
            for loop, owner, listed in self._made
            for attribute, _, is_empty_when_quiet in table.get(listed, ())
            if is_empty_when_quiet and loop.name in processes and _size(owner, attribute)
        ]
        for _ in range(LOOKS):
            if not kept:
                return
            self._world.run_for(LOOK_SECONDS)
            kept = [each for each in kept if not each[0].is_closed() and _size(each[1], each[2])]
        for loop, owner, attribute in kept:
            size = _size(owner, attribute)
            self._violate(loop, owner, attribute, f"has {size} entries although nobody is there")

    def connections(self, processes: Collection[str]) -> int:
        """Return how many connections the remoting servers of these processes have."""
        self._made[:] = [each for each in self._made if not each.loop.is_closed()]
        server = class_of(SERVER)
        return sum(
            len(owner.peers)
            for loop, owner, listed in self._made
            if listed is server and loop.name in processes
        )

    def _violate(self, loop: ProcessLoop, owner: object, attribute: str, what: str) -> None:
        known = type(owner), attribute
        if known not in self._reported:
            self._reported.add(known)
            self._world.violate(loop.name, f"{type(owner).__name__}.{attribute} {what}")


def _size(owner: object, attribute: str) -> int:
    found = getattr(owner, attribute)
    return found.qsize() if isinstance(found, asyncio.Queue) else len(cast("Sized", found))
