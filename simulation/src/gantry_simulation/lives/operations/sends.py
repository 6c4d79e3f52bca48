"""Sends: plain, answered early, with an idempotency key, in batches."""

from __future__ import annotations

from gantry_link.clients.store import BatchStored, StoreClient, batch_stored_of
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, body_of, topic_of
from gantry_simulation.lives.plan import Act
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.messages.properties import GANTRY_KEY, KEYS, TAGS, UNIQ_KEY, WAIT

BATCH = 5
FSYNC = "fsync"
KEYED = "send with key"
TAG_NAMES = ("red", "green", "blue")


def send_header(
    doing: Doing, act: Act, properties: str, *, group: str = GROUP, sys_flag: int = 0, batch: bool = False
) -> SendHeaderV2:
    """Return the header of a message to the topic and queue of an act."""
    return SendHeaderV2(
        producer_group=group, topic=topic_of(act), default_topic="TBW102", default_topic_queue_nums=4, queue_id=act.queue,
        sys_flag=sys_flag, born_timestamp=doing.wall_ms(), flag=0, properties=properties, batch=batch or None,
    )  # fmt: skip


def unique_key(message: str) -> str:
    """Return the unique key of a message."""
    return f"{message.replace('.', 'x').upper():0>32}"


def unique(message: str) -> str:
    """Return the property with the unique key of a message."""
    return f"{UNIQ_KEY}\x01{unique_key(message)}\x02"


def is_plain(message: str) -> bool:
    """Whether a message has a key, a tag and a property by its number, as plain ones of both protocols have."""
    return message[0] in "mh" and message[1:].isdigit()


def number_of(message: str) -> int:
    """Return the number of a plain message."""
    return int(message[1:])


def tag_of(number: int) -> str:
    """Return the tag of the plain message with this number."""
    return TAG_NAMES[number % len(TAG_NAMES)]


async def _send(
    doing: Doing, act: Act, message: str, properties: str, store: StoreClient | None = None
) -> None:
    doing.ledger.messages.sent.add(message)
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    store = store or doing.store(act.on)
    stored = await store.send(send_header(doing, act, properties), body_of(message, act.size))
    reply = stored.reply
    place = Place(act.on, topic, reply.queue_id, reply.queue_offset)
    durability = reply.durability or "no durability"
    doing.history.add(doing.name, f"{message} is stored at {place}: {durability}, code {stored.code}")
    if doing.is_group(act.on) and stored.code:
        return  # the group has not confirmed it, and another leader may never have got it
    is_durable = reply.durability == FSYNC or doing.confirms_all(act.on)
    doing.ledger.messages.stored(message, place, since, is_durable=is_durable)
    if doing.ledger.messages.required.get(place) == message:
        doing.ledger.messages.positions[place] = parse_offset_message_id(reply.msg_id)[2]


async def send(doing: Doing, act: Act) -> None:
    """Send a plain message."""
    await send_plain(doing, act)


async def send_plain(doing: Doing, act: Act, store: StoreClient | None = None) -> None:
    """Send a message with a key, a tag and a property. `store`: another client of the store than the usual one."""
    message = f"m{act.number}"
    found_by = f"{KEYS}\x01shared {message}\x02{TAGS}\x01{tag_of(act.number)}\x02n\x01{act.number}\x02"
    await _send(doing, act, message, unique(message) + found_by + f"{WAIT}\x01true\x02", store)


async def send_early(doing: Doing, act: Act) -> None:
    """Send a message that is answered before its flush."""
    message = f"e{act.number}"
    await _send(doing, act, message, unique(message) + f"{WAIT}\x01false\x02")


async def send_with_key(doing: Doing, act: Act) -> None:
    """Send a message with an idempotency key. The same number is the same key and the same content."""
    message = f"k{act.number}"
    properties = f"{unique(message)}{GANTRY_KEY}\x01key{act.number}\x02"
    doing.ledger.messages.key_of[message] = message
    await _send(doing, act, message, properties)


async def send_batch(doing: Doing, act: Act) -> None:
    """Send messages that are stored together."""
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    messages = [f"b{act.number}.{number}" for number in range(BATCH)]
    doing.ledger.messages.sent.update(messages)
    items = [
        BatchItem(0, body_of(message, act.size // BATCH), f"{unique(message)}{WAIT}\x01true\x02".encode())
        for message in messages
    ]
    header = send_header(doing, act, "", batch=True)
    answer = await doing.store(act.on).call(
        RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items, 1 << 20)
    )
    stored: BatchStored = batch_stored_of(answer)
    first = Place(act.on, topic, stored.reply.queue_id, stored.reply.queue_offset)
    doing.history.add(doing.name, f"{messages[0]}.. are stored from {first}: {stored.reply.durability}")
    if doing.is_group(act.on) and stored.code:
        return
    is_durable = stored.reply.durability == FSYNC or doing.confirms_all(act.on)
    for number, message in enumerate(messages):
        place = first._replace(offset=first.offset + number)
        doing.ledger.messages.stored(message, place, since, is_durable=is_durable)


OPERATIONS: dict[str, Operation] = {
    "send": send,
    "send early": send_early,
    KEYED: send_with_key,
    "send batch": send_batch,
}
