"""Values that clients keep at nameservers."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import Doing, Operation
from gantry_simulation.lives.plan import Act
from gantry_wire.frames.command import Command

NAMESPACE = "simulation"


async def keep_value(doing: Doing, act: Act) -> None:
    """Write a value to all nameservers, and read an earlier one from each that acknowledged it."""
    key, value, values = f"key{act.number}", str(act.number), doing.ledger.values
    answers = await doing.nameservers().kv_put(NAMESPACE, key, value)
    for address, answer in answers.items():
        if isinstance(answer, Command):
            values.acknowledged(address, key, value)
    for address, kept in list(values.kept.items()):
        earlier = list(kept)[act.number % len(kept)]
        values.read(address, earlier, await doing.nameservers(address).kv_get(NAMESPACE, earlier))
    doing.history.add(doing.name, f"keeps {key} at {', '.join(answers)}")


OPERATIONS: dict[str, Operation] = {"keep value": keep_value}
