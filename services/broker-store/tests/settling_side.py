"""A sending side with items to settle: delayed, half and plain messages, and queries about their outcome."""

from typing import Any

import msgspec
from sending_side import ScriptedPeer, SendingSide

from broker_store.settling.decided.mark import read_mark
from broker_store.settling.request.ahead import Ahead
from gantry_wire.codes import GantryCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import (
    ClaimBody,
    ClaimHeader,
    ClaimQueue,
    ClaimReplyBody,
    SettledStateBody,
    SettledStateHeader,
    SettleItem,
    SettleOutput,
    SettleResult,
    decode_json,
)
from gantry_wire.records.units import CONSUME_QUEUE_UNIT


class ScriptedTimer:
    """Fires when the test lets time pass."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.is_closed = False

    def set(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def close(self) -> None:
        self.is_closed = True


LEVEL_DROP = ("DELAY", "REAL_TOPIC", "REAL_QID")


class SettlingSide(SendingSide):
    """Adds the steps of an owner of system queues, one after the other, without a network."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.settling = self.sending.settling
        self.timer = ScriptedTimer()
        self.settling.ahead = Ahead(self.clock, lambda _release: self.timer)

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self.settling.ahead.release()

    def delayed(self, peer: ScriptedPeer, body: bytes = b"later", level: int = 1, **more: Any) -> None:
        """Send a message with a level, and flush."""
        properties = {"DELAY": str(level), "UNIQ_KEY": f"D{body[:20].decode()}", **more.pop("properties", {})}
        self.send(peer, body=body, properties=properties, **more)
        self.flush()

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int]:
        queue = self.queues.find(topic, queue_id)
        assert queue is not None
        return CONSUME_QUEUE_UNIT.unpack(queue.read(offset, 1))

    def item(
        self, offset: int, *outputs: SettleOutput, topic: str = SCHEDULE_TOPIC, queue_id: int = 0, **more: Any
    ) -> SettleItem:
        return SettleItem(offset, self.unit(topic, queue_id, offset)[0], list(outputs), **more)

    def settle(
        self,
        items: list[SettleItem],
        topic: str = SCHEDULE_TOPIC,
        queue_id: int = 0,
        group: str = "",
        epoch: int | None = None,
    ) -> list[list[SettleResult] | RefusedRequest]:
        """Submit items. The returned list fills when they are answered."""
        answers: list[list[SettleResult] | RefusedRequest] = []
        self.settling.settle(topic, queue_id, group, epoch, items, answers.append)
        return answers

    def settled(self, items: list[SettleItem], **more: Any) -> list[SettleResult]:
        """Settle, flush, and return the results."""
        answers = self.settle(items, **more)
        self.flush()
        assert len(answers) == 1
        assert isinstance(answers[0], list), answers[0]
        return answers[0]

    def claim(
        self,
        peer: ScriptedPeer,
        topic: str = SCHEDULE_TOPIC,
        queue_id: int = 0,
        owner: str = "s1",
        ttl_ms: int = 3000,
    ) -> Any:
        """Claim a queue. Returns the typed claim, or the refusing answer."""
        answer = self.claim_all(peer, [(topic, queue_id)], owner, ttl_ms)
        return answer if answer.code else decode_json(answer.body, ClaimReplyBody).claims[0]

    def claim_all(
        self, peer: ScriptedPeer, queues: list[tuple[str, int]], owner: str = "s1", ttl_ms: int = 3000
    ) -> Any:
        """Claim queues. Returns the answer."""
        body = msgspec.json.encode(ClaimBody([ClaimQueue(*queue) for queue in queues]))
        header = ClaimHeader(owner=owner, address="127.0.0.1:10921", ttl_ms=ttl_ms)
        self.ask(peer, GantryCode.CLAIM_QUEUES, header, body)
        return peer.answers[-1]

    def state(
        self, peer: ScriptedPeer, topic: str = SCHEDULE_TOPIC, queue_id: int = 0, **more: Any
    ) -> SettledStateBody:
        self.ask(peer, GantryCode.SETTLED_STATE, SettledStateHeader(topic=topic, queue_id=queue_id, **more))
        return decode_json(peer.answers[-1].body, SettledStateBody)

    def outcomes(self, topic: str = "orders", queue_id: int = 0) -> list[tuple[bytes, int]]:
        """Return (body, offset of its item, -1 for none) of what readers see."""
        return [
            (record.body, mark.offset if (mark := read_mark(record.properties)) else -1)
            for record in self.records(topic, queue_id)
        ]


def deliver(topic: str = "orders", queue_id: int = 0, **more: Any) -> SettleOutput:
    """Return the output of a due delayed message."""
    return SettleOutput(topic, queue_id, drop=more.pop("drop", LEVEL_DROP), **more)
