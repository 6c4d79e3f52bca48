"""Queries for acknowledged messages: by unique key, by key, by offset message id, by store time, by tag and by property.

Each finds exactly what was acknowledged, unless a loss, a deletion or damage came meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from gantry_link.errors import BrokerRefused
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.doing import GROUP, Doing, Operation, message_of, topic_of
from gantry_simulation.lives.operations.reading import READ_AT_ONCE, note_records
from gantry_simulation.lives.operations.sends import is_plain, number_of, tag_of, unique_key
from gantry_simulation.lives.plan import Act
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import PullHeader, QueryMessageHeader
from gantry_wire.records.message_record import scan_records

FOUND_MAX = 32
EVER_MS = 1 << 60


def required(doing: Doing, act: Act, *, plain: bool = False) -> list[tuple[Place, str]]:
    """Return what must be readable in the topic of an act, in the order of acknowledgments; perhaps only plain messages."""
    topic, is_shown = topic_of(act), doing.ledger.messages.is_shown
    return [
        (place, message)
        for place, message in doing.ledger.messages.required.items()
        if place[:2] == (act.on, topic) and (is_plain(message) or not plain) and is_shown(place)
    ]


def is_still(doing: Doing, place: Place, message: str) -> bool:
    """Whether a message must still be found, where the store has what it finds it by."""
    messages = doing.ledger.messages
    return messages.required.get(place) == message and place.store not in messages.doubtful


async def _query(doing: Doing, act: Act, key: str, *, is_unique: bool, wanted: tuple[Place, str]) -> None:
    place, message = wanted
    header = QueryMessageHeader(
        topic=place.topic, key=key, max_num=FOUND_MAX, begin_timestamp=0, end_timestamp=EVER_MS,
        unique_key_query=is_unique or None,
    )  # fmt: skip
    since = doing.ledger.since(act.on, place.topic)
    records = await doing.store(act.on).query_messages(header)
    found = {
        Place(act.on, place.topic, record.queue_id, record.queue_offset): message_of(record.body)
        for record in scan_records(records)
    }
    doing.history.add(doing.name, f"queries {message} by {key}: {len(found)} messages")
    if set(found.values()) - {message}:
        doing.violate(f"a query for {message} by {key} finds {found}")
    if (
        place not in found
        and is_still(doing, place, message)
        and doing.ledger.since(act.on, place.topic) == since
    ):
        doing.violate(f"a query for {message} by {key} does not find it at {place}")


async def by_unique_key(doing: Doing, act: Act) -> None:
    """Query a message by its unique key."""
    shown = required(doing, act)
    if shown:
        wanted = shown[act.number % len(shown)]
        key = doing.ledger.messages.unique_keys.get(wanted[1]) or unique_key(wanted[1])
        await _query(doing, act, key, is_unique=True, wanted=wanted)


async def by_key(doing: Doing, act: Act) -> None:
    """Query a message by one of its keys."""
    shown = required(doing, act, plain=True)
    if shown:
        wanted = shown[act.number % len(shown)]
        await _query(doing, act, wanted[1], is_unique=False, wanted=wanted)


async def by_id(doing: Doing, act: Act) -> None:
    """View a message by its position, which its offset message id contains."""
    positions = doing.ledger.messages.positions
    shown = [each for each in required(doing, act) if each[0] in positions]
    if not shown:
        return
    place, message = shown[act.number % len(shown)]
    try:
        data = await doing.store(act.on).view_message(positions[place], place.topic)
        found = [message_of(record.body) for record in scan_records(data)]
    except BrokerRefused as refused:
        if refused.code != ResponseCode.SYSTEM_ERROR:
            raise
        found = [str(refused)]
    doing.history.add(doing.name, f"views {message} at position {positions[place]}: {found}")
    if found != [message] and is_still(doing, place, message):
        doing.violate(f"{message} of {place} is viewed as {found}")


async def by_time(doing: Doing, act: Act) -> None:
    """Search the offset of a store time."""
    times = doing.ledger.messages.times
    shown = [each for each, _ in required(doing, act) if each.queue == act.queue and each in times]
    if not shown:
        return
    wanted = shown[act.number % len(shown)]
    time_ms = times[wanted] + act.number % 3 - 1
    since = doing.ledger.since(act.on, wanted.topic)
    offset = await doing.store(act.on).search_offset(wanted.topic, wanted.queue, time_ms)
    doing.history.add(doing.name, f"searches the time of {wanted} {act.number % 3 - 1:+} ms: offset {offset}")
    if doing.ledger.since(act.on, wanted.topic) != since or act.on in doing.ledger.messages.doubtful:
        return
    for place in shown:
        if place in doing.ledger.messages.required and (place.offset < offset) != (times[place] < time_ms):
            doing.violate(f"offset {offset} is found for the time {time_ms}, but {place} has {times[place]}")


async def by_tag(doing: Doing, act: Act) -> None:
    """Pull messages with a tag."""
    tag = tag_of(act.number)
    await _filtered(doing, act, tag, "TAG", lambda message: tag_of(number_of(message)) == tag)


async def by_property(doing: Doing, act: Act) -> None:
    """Pull messages with an SQL92 filter."""
    bound = act.number // 2
    await _filtered(
        doing, act, f"n IS NOT NULL AND n > {bound}", "SQL92", lambda message: number_of(message) > bound
    )


async def _filtered(
    doing: Doing, act: Act, subscription: str, kind: str, matches: Callable[[str], bool]
) -> None:
    topic = topic_of(act)
    before = {place for place, _ in required(doing, act, plain=True)}
    since = doing.ledger.since(act.on, topic)
    store = doing.store(act.on)
    start = await store.min_offset(topic, act.queue)
    header = PullHeader(
        consumer_group=GROUP, topic=topic, queue_id=act.queue, queue_offset=start, max_msg_nums=READ_AT_ONCE, sys_flag=4,
        subscription=subscription, expression_type=kind,
    )  # fmt: skip
    pulled = await store.pull(header)
    found = note_records(doing, pulled.records, act.on, topic, act.queue, since)
    doing.history.add(
        doing.name, f"pulls {act.on} {topic}/{act.queue} with {subscription}: {len(found)} messages"
    )
    compare_filtered(doing, act, subscription, matches, before, found, range(start, pulled.next_offset))


def compare_filtered(
    doing: Doing,
    act: Act,
    subscription: str,
    matches: Callable[[str], bool],
    before: set[Place],
    found: dict[Place, str],
    offsets: range,
) -> None:
    """Compare what a pull with a filter delivers of these offsets with the plain messages that were there `before` it."""
    for place, message in found.items():
        if not (is_plain(message) and matches(message)):
            doing.violate(f"a pull with {subscription} delivers {message} of {place}")
    for place, message in required(doing, act, plain=True):
        is_meant = place.queue == act.queue and place.offset in offsets and matches(message)
        if is_meant and place in before and place not in found and is_still(doing, place, message):
            doing.violate(f"a pull with {subscription} passes over {message} of {place}")


OPERATIONS: dict[str, Operation] = {
    "query unique key": by_unique_key,
    "query key": by_key,
    "view message": by_id,
    "search time": by_time,
    "pull by tag": by_tag,
    "pull by property": by_property,
}
