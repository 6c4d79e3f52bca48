"""Items whose delay began before store time was moved ahead: they are due later by the same amount. Pure."""

from collections.abc import Sequence

import msgspec

from broker_store.clocks.shifts import Shifts
from broker_store.config.delay_levels import LevelList
from broker_store.settling.gathering import Gathered
from broker_store.settling.mark import Source
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import TIMER_OUT_MS
from gantry_wire.settle_headers import SettleOutput


def put_off(source: Source, items: Sequence[Gathered], shifts: Shifts, levels: LevelList) -> None:
    """Delay the due times of items that wait out a delay. Instants stay."""
    topic, queue_id, _ = source
    for gathered in items:
        if not gathered.due_ms or gathered.is_absolute:
            continue
        if gathered.record is not None:
            began_ms = gathered.record.store_timestamp
        elif topic == SCHEDULE_TOPIC:
            began_ms = gathered.due_ms - levels.duration_ms(queue_id + 1)
        else:
            continue
        moved_ms = shifts.since(began_ms)
        if moved_ms:
            _put_off(gathered, moved_ms)


def _put_off(gathered: Gathered, moved_ms: int) -> None:
    was_ms, gathered.due_ms = gathered.due_ms, gathered.due_ms + moved_ms
    item = gathered.item
    if any(output.set.get(TIMER_OUT_MS) == str(was_ms) for output in item.outputs):
        # It must wait at the log's end for the same time. From there on that is the moved time.
        outputs = [_waiting_for(output, was_ms, gathered.due_ms) for output in item.outputs]
        gathered.item = msgspec.structs.replace(item, outputs=outputs)


def _waiting_for(output: SettleOutput, was_ms: int, due_ms: int) -> SettleOutput:
    if output.set.get(TIMER_OUT_MS) != str(was_ms):
        return output
    return msgspec.structs.replace(output, set={**output.set, TIMER_OUT_MS: str(due_ms)})
