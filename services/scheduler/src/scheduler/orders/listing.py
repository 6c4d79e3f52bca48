"""Lists waiting messages page by page, over all stores, ordered by time, broker and key. Makes no decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord, RefusedRequest
from gantry_wire.limits import INT64_MAX
from gantry_wire.private_requests.scheduling import (
    PAGE_MAX,
    ListParked,
    ListSchedules,
    Schedule,
    SchedulesPage,
)
from gantry_wire.records.message_record import decode_record
from scheduler.index.due_queue_names import DELAYS, INSTANTS, PARKED_MESSAGES
from scheduler.index.entries import PARKED, TIMER, Entry, queue_of
from scheduler.index.far_rows import Place, Wanted
from scheduler.index.sqlite_index import IndexClosed
from scheduler.terms.term import Term

_Row = tuple[int, str, int, Entry, Term]
"""Sort key of a list: time, broker, key."""


class Listing:
    """Lists the messages of the terms running at the time of the call."""

    def __init__(self, terms: Callable[[], Sequence[Term]]) -> None:
        self._terms = terms

    async def schedules(self, asked: ListSchedules) -> SchedulesPage:
        """Return pending messages by due time. The first page shows all messages acknowledged before the request."""
        wanted = Wanted((DELAYS, INSTANTS), asked.topic, asked.key, asked.from_ms, asked.to_ms)
        return await self._page(wanted, asked.broker, asked.after, asked.limit)

    async def parked(self, asked: ListParked) -> SchedulesPage:
        """Return parked messages in the order they were parked."""
        return await self._page(
            Wanted((PARKED_MESSAGES,), asked.topic), asked.broker, asked.after, asked.limit
        )

    async def _page(self, wanted: Wanted, broker: str | None, after: str | None, limit: int) -> SchedulesPage:
        if not 1 <= limit <= PAGE_MAX:
            raise RefusedRequest(
                ResponseCode.INVALID_PARAMETER, f"limit is {limit}; it must be 1 to {PAGE_MAX}"
            )
        token = _parse(after)
        page = SchedulesPage()
        rows: list[_Row] = []
        terms = [term for term in self._terms() if broker in (None, term.broker)]
        page.brokers = [term.broker for term in terms]
        page.incomplete = await _behind(terms, is_first=token is None)
        for term in terms:
            if not term.catching_up.is_open:
                continue
            place = None if token is None else _place(token, term.broker)
            try:
                far = await term.due_queues.far.page(wanted, place, limit + 1)
            except IndexClosed:
                page.incomplete += {term.broker} - {*page.incomplete}
                continue
            await term.due_queues.far.arrived()
            # Near before far: a message that moves near meanwhile is then in both places or one, never in none.
            found = {row[1].key: row for row in (*far, *near_rows(term, wanted, place))}.values()
            rows += [(at_ms, term.broker, entry.key, entry, term) for at_ms, entry in found]
            if term not in self._terms():  # it ended meanwhile, and what it was loading is lost
                page.incomplete += {term.broker} - {*page.incomplete}
        rows.sort(key=lambda row: row[:3])
        for _, broker_name, _, entry, term in rows[:limit]:
            message_id = await _message_id(entry, term)
            if message_id is not None:
                page.schedules.append(_schedule(entry, term, message_id))
            elif broker_name not in page.incomplete:
                page.incomplete.append(broker_name)
        if len(rows) > limit:
            at_ms, last_broker, key, *_ = rows[limit - 1]
            page.next = f"{at_ms}:{key}:{last_broker}"
        return page


async def _behind(terms: Sequence[Term], *, is_first: bool) -> list[str]:
    """Return the stores whose index is incomplete. Only the first page waits for them."""
    behind = [term for term in terms if not term.catching_up.is_complete]
    if is_first:
        others = [term for term in terms if term not in behind]
        read = await asyncio.gather(*(term.catching_up.reach_end() for term in others))
        behind += [term for term, until_end in zip(others, read, strict=True) if not until_end]
    return [term.broker for term in behind]


def near_rows(term: Term, wanted: Wanted, place: Place | None) -> list[tuple[int, Entry]]:
    """Return the wanted messages that are near or loading."""
    return [
        (entry.due_ms, entry)
        for number in wanted.due_queues
        if number in term.due_queues.due
        for entries in (term.due_queues.due[number].near, term.due_queues.due[number].in_flight)
        for entry in entries.values()
        if _is_wanted(entry, wanted) and (place is None or (entry.due_ms, entry.key) > place)
    ]


def _is_wanted(entry: Entry, wanted: Wanted) -> bool:
    if entry.cancels or wanted.topic not in (None, entry.topic):
        return False
    if wanted.from_ms is not None and entry.due_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and entry.due_ms >= wanted.to_ms:
        return False
    return wanted.message_key is None or wanted.message_key.encode() in entry.keys.split(b" ")


async def _message_id(entry: Entry, term: Term) -> str | None:
    """Return the unique key of a message, or its offset message id; None when its store cannot show it.

    The offset message id is read from the record. It holds the IP address the store had when it wrote the record,
    whatever name it advertises now.
    """
    if entry.uniq:
        return entry.uniq.decode("utf-8", "replace")
    try:
        return decode_record(await term.client.view_message(entry.position)).message_id
    except (BrokerRefused, LinkError, MalformedRecord):
        return None


def _schedule(entry: Entry, term: Term, message_id: str) -> Schedule:
    source = entry.source
    failure = next(
        (f for due_queue in term.due_queues.due.values() if (f := due_queue.failures.get(entry.key))), None
    )
    return Schedule(
        id=message_id,
        broker=term.broker,
        topic=entry.topic,
        queue_id=entry.queue_id,
        deliver_at_ms=0 if source == PARKED else entry.due_ms,
        kind="parked" if source == PARKED else "instant" if source == TIMER else "level",
        level=None if source in (TIMER, PARKED) else source + 1,
        system_queue_id=queue_of(source)[1],
        system_offset=entry.offset,
        position=entry.position,
        keys=entry.keys.decode("utf-8", "replace").split(),
        attempts=failure.attempts if failure else 0,
        error=failure.error if failure else None,
    )


def _parse(after: str | None) -> tuple[int, int, str] | None:
    if not after:
        return None
    at_ms, _, rest = after.partition(":")
    key, _, broker = rest.partition(":")
    if not (at_ms.isdecimal() and key.isdecimal() and broker):
        raise RefusedRequest(
            ResponseCode.INVALID_PARAMETER, f"after is {after[:64]!r}; give `next` of a page"
        )
    return int(at_ms), int(key), broker


def _place(token: tuple[int, int, str], broker: str) -> Place:
    """Return where a broker's rows continue.

    Brokers sorted before the token's broker continue after all rows of its time.
    """
    at_ms, key, last = token
    return Place(at_ms, key if broker == last else INT64_MAX if broker < last else -1)
