"""The history of a life in words: who sent what, what was stored and read, which faults happened, one line each."""

from __future__ import annotations

from gantry_simulation.world.world import SECOND_NS, World


class History:
    """Lines with their virtual time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: list[tuple[int, str, str]] = []

    def add(self, process: str, what: str) -> None:
        """Add a line of now."""
        self._lines.append((self._world.now_ns, process, what))

    def lines(self) -> list[str]:
        """Return everything, oldest first: seconds, process, what happened."""
        return [f"{at_ns / SECOND_NS:9.4f} s  {process:10}  {what}" for at_ns, process, what in self._lines]
