"""What clients do: each operation is one request, whose answer or absence goes into the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gantry_link.clients.store import BatchStored, StoreClient, batch_stored_of
from gantry_simulation.lives.history import History
from gantry_simulation.lives.ledger import Ledger, Place, Since
from gantry_simulation.lives.plan import Act
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import PullHeader, SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.properties import GANTRY_KEY, UNIQ_KEY, WAIT
from gantry_wire.records.message_record import scan_records

GROUP = "G"
READ_AT_ONCE = 32
BATCH = 5
FSYNC = "fsync"
BODY_BYTES_MAX = 64 * 1024


class Doing(Protocol):
    """What an operation needs from its client."""

    ledger: Ledger
    history: History
    name: str
    is_sync: Callable[[str], bool]
    """Whether a store delivers only what is durable."""

    def store(self, name: str) -> StoreClient:
        """Return the client of a store."""
        ...

    def wall_ms(self) -> int:
        """Return the client's wall clock."""
        ...


def topic_of(act: Act) -> str:
    """Return the topic of an operation."""
    return f"Topic{act.topic}"


def message_of(body: bytes) -> str:
    """Return the name that a body begins with."""
    return bytes(body).partition(b"|")[0].decode(errors="replace")


def _body(message: str, size: int) -> bytes:
    return f"{message}|".encode() + b"x" * min(size, BODY_BYTES_MAX)


def _header(doing: Doing, act: Act, properties: str, *, batch: bool = False) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group=GROUP, topic=topic_of(act), default_topic="TBW102", default_topic_queue_nums=4, queue_id=act.queue,
        sys_flag=0, born_timestamp=doing.wall_ms(), flag=0, properties=properties, batch=batch or None,
    )  # fmt: skip


def _unique(message: str) -> str:
    return f"{UNIQ_KEY}\x01{message.replace('.', 'x').upper():0>32}\x02"


async def _send(doing: Doing, act: Act, message: str, properties: str, key: str = "") -> None:
    doing.ledger.sent.add(message)
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    stored = await doing.store(act.on).send(_header(doing, act, properties), _body(message, act.size))
    reply = stored.reply
    place = Place(act.on, topic, reply.queue_id, reply.queue_offset)
    durability = reply.durability or "no durability"
    doing.history.add(doing.name, f"{message} is stored at {place}: {durability}, code {stored.code}")
    is_durable = reply.durability == FSYNC
    doing.ledger.stored(message, place, since, is_durable=is_durable, key=key)


async def send(doing: Doing, act: Act) -> None:
    """Send a plain message."""
    message = f"m{act.number}"
    await _send(doing, act, message, _unique(message) + f"{WAIT}\x01true\x02")


async def send_early(doing: Doing, act: Act) -> None:
    """Send a message that is answered before its flush."""
    message = f"e{act.number}"
    await _send(doing, act, message, _unique(message) + f"{WAIT}\x01false\x02")


async def send_with_key(doing: Doing, act: Act) -> None:
    """Send a message with an idempotency key. The same number is the same key and the same content."""
    message = f"k{act.number}"
    properties = f"{_unique(message)}{GANTRY_KEY}\x01key{act.number}\x02"
    await _send(doing, act, message, properties, key=message)


async def send_batch(doing: Doing, act: Act) -> None:
    """Send messages that are stored together."""
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    messages = [f"b{act.number}.{number}" for number in range(BATCH)]
    doing.ledger.sent.update(messages)
    items = [
        BatchItem(0, _body(message, act.size // BATCH), f"{_unique(message)}{WAIT}\x01true\x02".encode())
        for message in messages
    ]
    header = _header(doing, act, "", batch=True)
    answer = await doing.store(act.on).call(
        RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items, 1 << 20)
    )
    stored: BatchStored = batch_stored_of(answer)
    first = Place(act.on, topic, stored.reply.queue_id, stored.reply.queue_offset)
    doing.history.add(doing.name, f"{messages[0]}.. are stored from {first}: {stored.reply.durability}")
    for number, message in enumerate(messages):
        place = first._replace(offset=first.offset + number)
        doing.ledger.stored(message, place, since, is_durable=stored.reply.durability == FSYNC)


def pull_header(topic: str, queue: int, offset: int) -> PullHeader:
    """Return a pull that is answered at once."""
    return PullHeader(
        consumer_group=GROUP, topic=topic, queue_id=queue, queue_offset=offset, max_msg_nums=READ_AT_ONCE, sys_flag=4,
        subscription="*",
    )  # fmt: skip


def note_records(
    doing: Doing, records: bytes, on: str, topic: str, queue: int, since: Since
) -> dict[Place, str]:
    """Put delivered records into the ledger, and return them by place."""
    is_durable = doing.is_sync(on)
    found: dict[Place, str] = {}
    for record in scan_records(records):
        place, message = Place(on, topic, queue, record.queue_offset), message_of(record.body)
        doing.ledger.read(message, place, since, is_durable=is_durable)
        found[place] = message
    return found


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


async def delete_topic(doing: Doing, act: Act) -> None:
    """Delete a topic. The next send makes it again."""
    topic = topic_of(act)
    doing.ledger.deleted(act.on, topic)
    try:
        await doing.store(act.on).delete_topic(topic)
        doing.history.add(doing.name, f"deletes {topic} on {act.on}")
    finally:
        doing.ledger.deleted(act.on, topic)


async def commit(doing: Doing, act: Act) -> None:
    """Commit an offset of a group, and read it."""
    store, topic = doing.store(act.on), topic_of(act)
    await store.commit_offset(GROUP, topic, act.queue, act.number)
    offset = await store.consumer_offset(GROUP, topic, act.queue)
    doing.history.add(doing.name, f"commits {act.number} of {topic}/{act.queue} on {act.on}, reads {offset}")


Operation = Callable[[Doing, Act], Awaitable[None]]
DELETE = "delete topic"
OPERATIONS: dict[str, Operation] = {
    "send": send,
    "send early": send_early,
    "send with key": send_with_key,
    "send batch": send_batch,
    "pull": pull,
    "commit": commit,
    DELETE: delete_topic,
}
SENDS = tuple(kind for kind in OPERATIONS if kind.startswith("send"))
