"""A sending side that accepts send-backs of one consumer group."""

import asyncio
import contextlib
import random

from sending_side import ScriptedPeer, SendingSide

from broker_store.log.errors import LogStopped
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.send_back_handler import Retrying
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import ConsumerSendBackHeader

WAIT_TURNS = 6000


class Middle(random.Random):
    """Draws the middle."""

    def random(self) -> float:
        return 0.5


class Consumers:
    """A sending side that accepts send-backs, and one consumer."""

    def __init__(self, side: SendingSide | None = None) -> None:
        self.side = side or SendingSide()
        self.group = SubscriptionGroupConfig(group_name="g")
        sending, store = self.side.sending, self.side.store
        self.side.groups.set_auto_create(enable=False)
        self.side.groups.put(self.group)
        self.retrying = Retrying(

                read_record=store.log.read_record, in_thread=asyncio.to_thread, topics=store.topics, targets=sending.targets,
                queues=store.queues, appends=sending.appends, delays=sending.delays, retries=sending.retries,
                deferred=DeferredReplies(self.side.classes["send"], self.side.clock.now_ms),
                consumer_of=lambda peer, _group: f"client@{peer.id}", broker_ip="127.0.0.1",
                on_sent_back=lambda topic, group: self.sent_back.append((topic, group)),
                rng=Middle(),

        )  # fmt: skip
        self.side.table.add_all(self.retrying.commands())
        self.peer = ScriptedPeer()
        self.sent_back: list[tuple[str, str]] = []

    def stored(self, topic: str = "orders", properties: dict[str, str] | None = None, **more: object) -> int:
        """Send a message; returns its position."""
        self.side.send(
            ScriptedPeer(), topic, properties=properties or {"UNIQ_KEY": "U1", "TAGS": "a"}, **more
        )
        self.side.flush()
        return self.side.records(topic)[-1].position

    async def back(
        self, position: int, *, version: int = 479, group: str = "g", level: int = 0, **more: object
    ) -> Command:
        """Send one back and flush. Returns the answer."""
        header = ConsumerSendBackHeader(offset=position, group=group, delay_level=level, **more)  # type: ignore[arg-type]
        before = len(self.peer.answers)
        frame = encode_request(RequestCode.CONSUMER_SEND_MSG_BACK, before + 1, header)
        raw = FrameDecoder().receive(frame.replace(b'"version":479', b'"version":%03d' % version))[0]
        self.side.receive(self.peer, raw)
        for _ in range(WAIT_TURNS):
            if len(self.peer.answers) > before:
                return self.peer.answers[-1]
            await asyncio.sleep(0.005)
            with contextlib.suppress(LogStopped):
                self.side.flush()
        raise AssertionError("no answer")
