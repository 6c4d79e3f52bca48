"""Pulls, and what delivered records say to the ledger."""

from __future__ import annotations

from gantry_simulation.ledger.places import Place, Since
from gantry_simulation.ledger.tasks import Letter
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, message_of, topic_of
from gantry_simulation.lives.plan import Act
from gantry_wire.headers.messages import PullHeader
from gantry_wire.messages.properties import GANTRY_KEY, GANTRY_SETTLED
from gantry_wire.names import REDRIVE_GROUP
from gantry_wire.records.message_record import Record, scan_records

READ_AT_ONCE = 32
FLAG_COMMIT, FLAG_SUSPEND, FLAG_SUBSCRIPTION = 1, 2, 4


def pull_header(topic: str, queue: int, offset: int, *, hold_ms: int = 0) -> PullHeader:
    """Return a pull that the store holds for a time; with 0 it is answered at once."""
    return PullHeader(
        consumer_group=GROUP, topic=topic, queue_id=queue, queue_offset=offset, max_msg_nums=READ_AT_ONCE,
        sys_flag=FLAG_SUBSCRIPTION | (FLAG_SUSPEND if hold_ms else 0), suspend_timeout_millis=hold_ms, subscription="*",
    )  # fmt: skip


def note_records(
    doing: Doing, records: bytes, on: str, topic: str, queue: int, since: Since
) -> dict[Place, str]:
    """Put delivered records into the ledger, and return them by place."""
    is_durable = doing.is_sync(on)
    found: dict[Place, str] = {}
    for record in scan_records(records):
        place, message = Place(on, topic, queue, record.queue_offset), message_of(record.body)
        letter = letter_of(record)
        if letter is not None:
            doing.ledger.messages.copies.add(place)
            doing.ledger.tasks.copied(*letter, place, message)
        doing.ledger.read(message, place, since, is_durable=is_durable, store_ms=record.store_timestamp)
        found[place] = message
    return found


def letter_of(record: Record) -> tuple[Letter, str] | None:
    """Return the dead letter that a record is a copy of, and the task that sent it again."""
    properties = record.property_map() if REDRIVE_GROUP.encode() in record.properties else {}
    if f":{REDRIVE_GROUP}:" not in properties.get(GANTRY_SETTLED, ""):
        return None
    task, store, queue, offset = properties[GANTRY_KEY].rsplit(":", 3)
    return Letter(store, int(queue), int(offset)), task


async def pull(doing: Doing, act: Act) -> None:
    """Read from somewhere in a queue."""
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    store = doing.store(act.on)
    end = await store.max_offset(topic, act.queue)
    offset = act.number % (end + 1)
    pulled = await store.pull(pull_header(topic, act.queue, offset))
    found = note_records(doing, pulled.records, act.on, topic, act.queue, since)
    doing.history.add(doing.name, f"pulls {act.on} {topic}/{act.queue} from {offset}: {len(found)} messages")


OPERATIONS: dict[str, Operation] = {"pull": pull}
