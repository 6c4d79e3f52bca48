"""The operations of all subjects by name, as plans name them."""

from __future__ import annotations

from gantry_simulation.lives.operations import offsets, reading, sends, topics
from gantry_simulation.lives.operations.doing import Operation

OPERATIONS: dict[str, Operation] = {
    **sends.OPERATIONS,
    **reading.OPERATIONS,
    **offsets.OPERATIONS,
    **topics.OPERATIONS,
}
SENDS = tuple(sends.OPERATIONS)
