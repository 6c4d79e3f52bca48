"""Which host reaches which other: partitions one way or both, and what waits for their end."""

from __future__ import annotations

from collections.abc import Callable

from gantry_simulation.network.conditions import Conditions
from gantry_simulation.world.world import World

NETWORK = "network"
Path = tuple[str, str]
"""(from, to), addresses of hosts."""


class Paths:
    """Carries actions between hosts after a drawn latency. TCP repeats what a partition drops, so that waits for its end."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self.conditions = conditions
        self._world = world
        self.rng = world.rng(NETWORK)
        self._cut: dict[Path, list[Callable[[], None]]] = {}

    @property
    def now_ns(self) -> int:
        """Virtual time in nanoseconds."""
        return self._world.now_ns

    def latency_ns(self) -> int:
        """Draw the time that a piece is on its way."""
        conditions, rng = self.conditions, self.rng
        drawn = rng.random()
        if drawn < conditions.slow_chance:
            return rng.randint(*conditions.slow_ns)
        least, most = conditions.latency_ns
        return least + int((most - least) * rng.random())

    def gap_ns(self) -> int:
        """Draw the least time between two pieces of a connection."""
        least, most = self.conditions.gap_ns
        return least + int((most - least) * self.rng.random())

    def is_open(self, path: Path) -> bool:
        """Whether bytes pass in this direction."""
        return path not in self._cut

    def carry(self, path: Path, arrive: Callable[[], None]) -> None:
        """Run `arrive` at the other host after a latency; during a partition after its end."""
        self.carry_at(path, self._world.now_ns + self.latency_ns(), arrive)

    def carry_at(self, path: Path, when_ns: int, arrive: Callable[[], None]) -> None:
        """As `carry`, at this time or after the partition that there is then."""

        def arrives() -> None:
            waiting = self._cut.get(path)
            if waiting is None:
                arrive()
            else:
                waiting.append(arrives)

        self._world.at(when_ns, arrives)

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from `source` to `target`. The other direction is not changed."""
        self._cut.setdefault((source, target), [])
        self._world.record(NETWORK, "cut", f"{source}>{target}")

    def heal(self, source: str, target: str) -> None:
        """End a partition of this direction. What waited arrives within a drawn time, in its order per connection."""
        waiting = self._cut.pop((source, target), None)
        if waiting is None:
            return
        self._world.record(NETWORK, "heal", f"{source}>{target}")
        for arrives in waiting:
            self._world.after(self.rng.randint(*self.conditions.resend_ns), arrives)
