"""The register of a simulated group: one sequence of records, over a network that loses requests and replies, answers late and reads stale."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_store.replication.register.record import Registered, decode, encode
from broker_store.replication.steps import (
    Input,
    ReadRegister,
    RegisterLost,
    RegisterRead,
    RegisterRefused,
    RegisterWritten,
    WriteRegister,
)

if TYPE_CHECKING:
    from group_world import World

STALE_MAX = 3
PATIENCE_MS = 600


class SimulatedRegister:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.records: list[Registered] = []
        self.away_until = 0
        self._frozen: dict[str, tuple[int, int]] = {}
        """Count of records that the reads of a machine show, and until when."""

    def freeze(self, name: str, ms: int) -> None:
        """Let the reads of a machine show nothing new for a time."""
        self._frozen[name] = (len(self.records), self._world.now + ms)

    def end_faults(self) -> None:
        self.away_until = self._world.now
        self._frozen.clear()

    @property
    def newest(self) -> Registered | None:
        return self.records[-1] if self.records else None

    def ask(
        self, name: str, life: int, order: ReadRegister | WriteRegister, answer: Callable[[Input], None]
    ) -> None:
        """Carry out an operation; the caller hears within PATIENCE_MS that it is lost, if nothing else comes before."""
        world = self._world
        world.at(PATIENCE_MS, lambda: answer(RegisterLost(order.operation)))
        if not self._passes(name):
            return
        world.at(self._delay(), lambda: self._apply(name, order, answer))

    def _passes(self, name: str) -> bool:
        world = self._world
        is_away = world.now < self.away_until or (name, "register") in world.cut
        return not is_away and world.random.random() >= world.register_lost

    def _delay(self) -> int:
        world = self._world
        late = world.random.random() < world.late
        return world.drawn(world.profile.register_ms) + (world.drawn(world.profile.late_ms) if late else 0)

    def _apply(self, name: str, order: ReadRegister | WriteRegister, answer: Callable[[Input], None]) -> None:
        world = self._world
        if world.now < self.away_until or world.nodes[name].is_lost:
            return
        if isinstance(order, ReadRegister):
            reply: Input = RegisterRead(order.operation, self._read(name))
        elif order.record.version == len(self.records) + 1:
            self.records.append(decode(encode(order.record)))
            world.register_changed()
            reply = RegisterWritten(order.operation)
        else:
            reply = RegisterRefused(order.operation, world.random.choice((None, self._read(name))))
        if self._passes(name):
            world.at(self._delay(), lambda: answer(reply))

    def _read(self, name: str) -> Registered | None:
        world, count = self._world, len(self.records)
        shown, until = self._frozen.get(name, (count, 0))
        if world.now < until:
            count = shown
        if world.random.random() < world.stale:
            count = max(0, count - world.random.randint(1, STALE_MAX))
        return self.records[count - 1] if count else None
