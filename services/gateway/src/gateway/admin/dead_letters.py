"""Dead letters of a group: read from `%DLQ%group`, where each is stored with its reason."""

import asyncio
from bisect import bisect_right
from operator import itemgetter
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord
from gantry_wire.messages.properties import (
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    GANTRY_DLQ_ATTEMPTS,
    GANTRY_DLQ_CONSUMER,
    GANTRY_DLQ_REASON,
    GANTRY_ORIGIN,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
)
from gantry_wire.names import dlq_topic, retry_topic
from gateway.admin.groups import GroupAdmin
from gateway.http.problems import invalid
from gateway.messages.message_view import messages
from gateway.messages.schemas import DeadLetter, MessageOut
from gateway.ports.stores import Broker, PeerAway, Pulled, Store, StoreRefused, TopicSettings
from gateway.requests.paging import read_marks, write_marks
from gateway.routing.fleet import Fleet, demand_all
from gateway.routing.route_cache import PERM_READ, PERM_WRITE

QUEUE_ID = 0
"""RocketMQ gives a dead-letter topic one queue."""
ROUNDS_MAX = 64


class DeadLetterPage(NamedTuple):
    """Dead letters in the order of their deaths; `next` is the mark of the next page."""

    messages: list[MessageOut]
    next: str | None
    missing: list[str]


class DeadLetters:
    """Reads dead letters from every broker."""

    def __init__(self, fleet: Fleet, groups: GroupAdmin) -> None:
        self._fleet, self._groups = fleet, groups

    async def page(self, group: str, after: str, limit: int, *, as_base64: bool) -> DeadLetterPage:
        """Return dead letters of a group, oldest first; raise 404 for a group that does not exist and has none."""
        marks = read_marks(after)
        alive, missing = await self._fleet.brokers()
        wanted = [broker for broker in alive if marks.get(broker.name, "") is not None]
        answers = await asyncio.gather(
            *(
                self._of_broker(group, broker, _offset(marks.get(broker.name)), limit, as_base64=as_base64)
                for broker in wanted
            ),
            return_exceptions=True,
        )
        found: list[MessageOut] = []
        following: dict[str, int | None] = {}
        for broker, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, PeerAway | StoreRefused | MalformedRecord):
                missing.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer[0]
                following[broker.name] = answer[1]
        if not found and not after:
            await self._groups.get(group)
        if wanted and not following:
            demand_all(missing, f"dead letters of group {group} cannot be read")
        found.sort(key=lambda message: (message.store_timestamp, message.broker, message.queue_offset))
        shown = found[:limit]
        for broker in wanted:
            if broker.name not in following:
                continue
            held = [message.queue_offset for message in shown if message.broker == broker.name]
            all_shown = len(held) == sum(message.broker == broker.name for message in found)
            if all_shown:
                offset = following[broker.name]
                marks[broker.name] = None if offset is None else str(offset)
            else:
                marks[broker.name] = str(held[-1] + 1) if held else marks.get(broker.name) or ""
        return DeadLetterPage(shown, write_marks(marks), sorted(set(missing)))

    async def make_retry_topic(self, group: str) -> None:
        """Create the group's retry topic on each broker that lacks it: a group without retries has none."""
        queues = max(1, next(iter((await self._groups.get(group)).values())).retry_queues)
        topic = retry_topic(group)

        async def make(store: Store) -> None:
            if all(one.topic != topic for one in await store.topics()):
                await store.put_topic(TopicSettings(topic, queues, queues, PERM_READ | PERM_WRITE))

        _done, missing = await self._fleet.each(make)
        demand_all(missing, f"the retry topic of group {group} is not everywhere yet")

    async def _of_broker(
        self, group: str, broker: Broker, offset: int, limit: int, *, as_base64: bool
    ) -> tuple[list[MessageOut], int | None]:
        """Return up to `limit` dead letters of one broker, and where its queue continues; None if it does not."""
        store = self._fleet.store(broker)
        found: list[MessageOut] = []
        following: int | None = None
        for _ in range(ROUNDS_MAX):
            pulled = await _pull(store, group, offset, limit - len(found))
            if pulled is None:
                break
            part = messages(pulled.records, broker.name, as_base64=as_base64, with_system=True)
            found += part
            offset = pulled.next_offset
            following = None if offset >= pulled.max_offset else offset
            if len(found) >= limit or following is None:
                break
        redriven = await store.redriven(group, found[0].queue_offset) if found else []
        for message in found:
            message.dead_letter = _death(message, is_redriven=_is_in(redriven, message.queue_offset))
        return found, following


async def _pull(store: Store, group: str, offset: int, count: int) -> Pulled | None:
    """Pull from the group's dead letters; None if this broker has none."""
    try:
        return await store.pull(dlq_topic(group), QUEUE_ID, offset, count, 0, "")
    except StoreRefused as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise


def _is_in(ranges: list[tuple[int, int]], offset: int) -> bool:
    """Whether an offset is in one of ascending ranges [first, end)."""
    at = bisect_right(ranges, offset, key=itemgetter(0))
    return at > 0 and offset < ranges[at - 1][1]


def _death(message: MessageOut, *, is_redriven: bool) -> DeadLetter:
    """Return the reason of a dead letter; one that RocketMQ wrote only has topic, id and attempts."""
    noted = message.system_properties or {}
    topic, queue_id, offset = _place(noted.get(GANTRY_ORIGIN, ""))
    attempts = noted.get(GANTRY_DLQ_ATTEMPTS, "")
    return DeadLetter(
        noted.get(GANTRY_DLQ_REASON) or "its attempts are used up",
        int(attempts) if attempts.isdecimal() else message.reconsume_times,
        is_redriven,
        noted.get(GANTRY_DLQ_CONSUMER),
        topic or noted.get(DLQ_ORIGIN_TOPIC) or noted.get(RETRY_TOPIC),
        queue_id,
        offset,
        noted.get(DLQ_ORIGIN_MESSAGE_ID) or noted.get(ORIGIN_MESSAGE_ID),
    )


def _place(text: str) -> tuple[str | None, int | None, int | None]:
    """Parse `topic:queue:offset`."""
    topic, _, rest = text.partition(":")
    queue_id, _, offset = rest.partition(":")
    if not (topic and queue_id.isdecimal() and offset.isdecimal()):
        return None, None, None
    return topic, int(queue_id), int(offset)


def _offset(mark: str | None) -> int:
    if not mark:
        return 0
    if not (mark.isascii() and mark.isdigit() and len(mark) < 19):
        raise invalid("after", "after is no mark of a page: take `next` of the page before")
    return int(mark)
