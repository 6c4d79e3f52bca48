"""Sends of one message without a task: from a known head and a body to a frame for the store, and from its answer to ours.

Every check is the plain way's own. What is refused, or has to wait for anything but the store's answer, is left to the plain way before
anything was done; what the store refuses, or does not answer, goes on there.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import msgspec

from gateway.connection.quick_answer import Begin, QuickAnswers
from gateway.connection.request_io import Cycle
from gateway.http.call import Call, Reply
from gateway.http.problems import Problem
from gateway.messages.schemas import FieldNames, MessageIn, SendResult
from gateway.ports.stores import Stored
from gateway.requests.checks import sendable, topic_of
from gateway.requests.media_types import JSON_TYPE, media_type_of
from gateway.send.drafts import Draft, Drafting
from gateway.send.media_types import EVENT, EVENT_BATCH, check_message_type
from gateway.send.raw_messages import PREFIX as MQ_PREFIX
from gateway.send.raw_messages import header_fields, header_name, read_message, refuse_headers_twice
from gateway.send.routes import SendRoute, json_names, read_messages
from gateway.send.sending import Placed, Sender, result_of

_encode = msgspec.json.encode

Read = Callable[[bytes], MessageIn | None]
"""Returns the one message of a body; None where there are more, or none."""


class QuickSends:
    """Begins sends of one message."""

    def __init__(
        self,
        route: SendRoute,
        sender: Sender,
        drafting: Drafting,
        answers: QuickAnswers,
    ) -> None:
        self.route, self.sender, self.answers = route, sender, answers
        self._drafts = drafting.drafts

    def learn(self, scope: dict[str, Any]) -> Begin | None:
        """Return how requests of this scope begin; None where they are for the plain way."""
        parts = scope["path"].split("/")
        access = self.answers.access
        if len(parts) != 5 or self.route.is_limited or access.has_origins:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            topic = sendable(topic_of(parts[3]))
            access.check(scope["method"], scope["path"], headers)
            media_type = media_type_of(headers)
            if media_type == JSON_TYPE:
                return partial(self._begin, topic, _only_one, json_names)
            check_message_type(media_type, headers)
            if media_type in {EVENT, EVENT_BATCH}:
                return None
            refuse_headers_twice(scope["headers"], MQ_PREFIX)
            pattern = read_message(header_fields(headers), b"", header_name)
        except Problem:
            return None
        return partial(self._begin, topic, partial(_with_body, pattern), header_name)

    def _begin(self, topic: str, read: Read, name_of: FieldNames, cycle: Cycle, body: bytes) -> bool:
        started = self.answers.clock()
        try:
            item = read(body)
            if item is None:
                return False
            (draft,) = self._drafts((item,), "", name_of)
            placed = self.sender.place(topic, draft)
        except Problem:
            return False
        if placed is None:
            return False
        sending = _Sending(self, cycle, draft, placed, started)
        return placed.store.begin_send(
            topic, placed.group.queue[1], draft.body, draft.properties, sending.told
        )


class _Sending:
    """One send that waits for its store."""

    __slots__ = ("_cycle", "_draft", "_placed", "_sends", "_started")

    def __init__(self, sends: QuickSends, cycle: Cycle, draft: Draft, placed: Placed, started: float) -> None:
        self._sends, self._cycle, self._draft = sends, cycle, draft
        self._placed, self._started = placed, started

    def told(self, outcome: Stored | Exception) -> None:
        """Take the store's answer."""
        sends, cycle = self._sends, self._cycle
        if type(outcome) is Stored:
            result = result_of(self._placed.group.queue, outcome, self._draft)
            if type(result) is SendResult:
                body = b'{"results":[' + _encode(result) + b"]}\n"
                if sends.answers.write_json(cycle, body, "send", self._started, may_pack=True):
                    sends.route.messages += 1
                    return
        sends.answers.later(cycle, "send", partial(self._go_on, outcome))

    async def _go_on(self, outcome: Stored | Exception, _call: Call) -> Reply:
        sends = self._sends
        return sends.route.reply(await sends.sender.go_on(self._placed, self._draft, outcome))


def _only_one(body: bytes) -> MessageIn | None:
    if b"},{" in body or b"}, {" in body:  # hardly one message: why read all of them twice
        return None
    items = read_messages(body)
    return items[0] if len(items) == 1 else None


def _with_body(pattern: MessageIn, body: bytes) -> MessageIn | None:
    if not body:
        return None
    item = copy(pattern)
    item.body_base64 = body
    return item
