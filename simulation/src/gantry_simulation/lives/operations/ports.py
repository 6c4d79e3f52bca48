"""What only one of a store's two ports does: held pulls on the main port, short connections to the fast port."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import ANSWER_SECONDS, Doing, Operation, topic_of
from gantry_simulation.lives.operations.reading import note_records, pull_header
from gantry_simulation.lives.operations.sends import send_plain
from gantry_simulation.lives.plan import Act

HOLD, SEND = "hold pull", "send on fast port"
HOLD_MS = 2_000


async def hold_pull(doing: Doing, act: Act) -> None:
    """Wait at the end of a queue for a message."""
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    store = doing.store(act.on)
    end = await store.max_offset(topic, act.queue)
    header = pull_header(topic, act.queue, end, hold_ms=HOLD_MS)
    pulled = await store.pull(header, timeout_seconds=HOLD_MS / 1000 + ANSWER_SECONDS)
    found = note_records(doing, pulled.records, act.on, topic, act.queue, since)
    doing.history.add(doing.name, f"waited at {act.on} {topic}/{act.queue}@{end}: {len(found)} messages")


async def send_on_fast_port(doing: Doing, act: Act) -> None:
    """Send a plain message over a connection of its own to the fast port, as RocketMQ's VIP channel does."""
    async with doing.fast_port(act.on) as store:
        await send_plain(doing, act, store)


OPERATIONS: dict[str, Operation] = {HOLD: hold_pull, SEND: send_on_fast_port}
