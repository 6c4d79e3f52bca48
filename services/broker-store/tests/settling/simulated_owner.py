"""An owner of system queues as a state machine: it claims, follows, settles, sleeps, dies, and trusts its last answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sending_side import ScriptedPeer
from settling_side import SettlingSide

from gantry_wire.codes import GantryCode
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import (
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    SettleReplyBody,
    decode_json,
)

KEYS = ((SCHEDULE_TOPIC, 0), (SCHEDULE_TOPIC, 1), (TIMER_TOPIC, 0))
DROPPED = ("DELAY", "REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_DELIVER_MS", "TIMER_DELAY_MS")
_peer_ids = iter(range(1000, 1 << 30))


@dataclass
class Request:
    """One SETTLE in flight."""

    key: tuple[str, int]
    epoch: int
    items: list[SettleItem]
    newest_epoch: int = 0
    """The newest epoch of the queue when the store placed it."""


@dataclass
class Owner:
    """One scheduler, or its remains."""

    name: str
    random: random.Random
    epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    pending: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Queue → offset → position of what it believes to be undecided."""
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    requests: dict[int, Request] = field(default_factory=dict)
    sleeps: int = 0
    peer: ScriptedPeer = field(default_factory=lambda: ScriptedPeer(port=next(_peer_ids)))

    def reconnect(self) -> None:
        """Reconnect after the store died: open requests get no answer, beliefs stay."""
        self.peer = ScriptedPeer(port=next(_peer_ids))
        self.requests.clear()

    def die(self, side: SettlingSide) -> None:
        side.settling.closed(self.peer.id)
        self.forget()
        self.reconnect()

    def forget(self) -> None:
        self.epochs.clear()
        self.pending.clear()
        self.next_offsets.clear()

    @property
    def owns_all(self) -> bool:
        """Whether it believes to hold every claim."""
        return len(self.epochs) == len(KEYS)

    def claim(self, side: SettlingSide, newest: dict[tuple[str, int], int]) -> None:
        """Claim every queue, and learn what is undecided there."""
        for topic, queue_id in KEYS:
            reply: Any = side.claim(self.peer, topic, queue_id, self.name)
            if not hasattr(reply, "epoch"):
                self.forget()
                return
            key = (topic, queue_id)
            assert reply.epoch >= newest.get(key, 0), "an epoch went back"
            newest[key] = reply.epoch
            if self.epochs.get(key) != reply.epoch:
                self._learn(side, key)
                self.epochs[key] = reply.epoch

    def _learn(self, side: SettlingSide, key: tuple[str, int]) -> None:
        state = side.state(self.peer, *key)
        self.next_offsets[key] = state.cursor
        self.pending[key] = {}
        self.follow(side, key)
        for first, end in state.settled:
            for offset in range(first, end):
                self.pending[key].pop(offset, None)

    def follow(self, side: SettlingSide, key: tuple[str, int]) -> None:
        queue = side.queues.find(*key)
        end = 0 if queue is None else queue.max_offset
        for offset in range(self.next_offsets[key], end):
            self.pending[key][offset] = side.unit(*key, offset)[0]
        self.next_offsets[key] = max(end, self.next_offsets[key])

    def ask(self, side: SettlingSide, *, everything: bool = False) -> None:
        """Settle some of what it believes undecided: most are delivered, some cancelled, some moved."""
        keys = [key for key in KEYS if self.pending.get(key)]
        if not keys:
            return
        key = self.random.choice(keys)
        offsets = sorted(self.pending[key])
        chosen = (
            offsets
            if everything
            else self.random.sample(offsets, min(len(offsets), self.random.randint(1, 4)))
        )
        items = [self._item(side, key, offset, tame=everything) for offset in chosen]
        header = SettleHeader(topic=key[0], queue_id=key[1], epoch=self.epochs[key])
        opaque = side.ask(self.peer, GantryCode.SETTLE, header, msgspec.json.encode(SettleBody(items)))
        self.requests[opaque] = Request(key, self.epochs[key], items)

    def _item(self, side: SettlingSide, key: tuple[str, int], offset: int, *, tame: bool) -> SettleItem:
        position = self.pending[key][offset]
        kind = 9 if tame else self.random.randrange(10)
        if kind == 0:
            return SettleItem(offset, position, [], "cancelled")
        if kind == 1:
            later = {"TIMER_OUT_MS": str(side.clock.now_ms() + self.random.randint(0, 3000))}
            return SettleItem(
                offset,
                position,
                [SettleOutput(TIMER_TOPIC, 0, set=later, drop=("DELAY",))],
                "moved",
                force=True,
            )
        ahead_ms = 0 if tame else self.random.choice((0, 0, 1, 200, 900, 2000))
        at_ms = side.clock.now_ms() + ahead_ms if ahead_ms else 0
        output = SettleOutput("orders", offset % 4, drop=DROPPED)
        return SettleItem(offset, position, [output], "delivered", at_ms=at_ms)

    def take_answers(self, answered: dict[tuple[str, int, int], Any]) -> None:
        """Read the answers. `answered` collects those reported as settled."""
        answers, self.peer.answers = self.peer.answers, []
        for answer in answers:
            request = self.requests.pop(answer.opaque, None)
            if request is None:
                continue
            if answer.code:
                if answer.ext.get("gantryCode") == "FENCED":
                    self.forget()
                continue
            assert request.epoch == request.newest_epoch, "an epoch that was replaced decided something"
            for result in decode_json(answer.body, SettleReplyBody).results:
                assert result.status in {"settled", "already", "early"}, result
                if result.status != "early":
                    self.pending.get(request.key, {}).pop(result.offset, None)
                if result.status == "settled":
                    place = (*request.key, result.offset)
                    assert place not in answered, f"{place} was settled twice"
                    answered[place] = result
