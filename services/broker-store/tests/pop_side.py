"""A whole store over a simulated disk, and a client that pops step by step."""

from typing import Any, NamedTuple

from leasing_side import LeasingSide

from broker_store.pop.ack_handler import PopAckHandlers
from broker_store.pop.handles import PopStamp, extra_info
from broker_store.pop.pop_handler import PopHandlers
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.pop import PopHeader, PopReplyHeader
from gantry_wire.messages.properties import POP_CK
from gantry_wire.records.message_record import Record, scan_records

BROKER = "broker-a"


class PoppedMessage(NamedTuple):
    """A message as RocketMQ's Java client sees it."""

    record: Record
    extra_info: str

    @property
    def body(self) -> str:
        return self.record.body.decode()


class PopSide(LeasingSide):
    """Adds POP."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        leasing = self.leasing
        deferred = DeferredReplies(self.around.classes["ack"], self.around.now_ms)
        for part in (
            PopHandlers(
                leasing.receiver, leasing.waits, leasing.receiver.opener, self.store.states.leases,
                self.store.queues, self.consuming.groups, BROKER,
            ),
            PopAckHandlers(leasing.acker, leasing.receiver, self.store.topics, self.store.queues, deferred),
        ):  # fmt: skip
            self.table.add_all(part.commands())

    def pop_raw(self, **fields: Any) -> Command | None:
        header = {
            "consumer_group": "g", "topic": "orders", "queue_id": -1, "max_msg_nums": 32, "invisible_time": 30_000,
            **fields,
        }  # fmt: skip
        return self.asked(RequestCode.POP_MESSAGE, PopHeader(**header))

    def pop(self, **fields: Any) -> list[PoppedMessage]:
        """Pop. Flushes where a filter or a start must be in the log first."""
        answer = self.pop_raw(**fields)
        if answer is None:
            self.flush()
            answer = self.answer_to(self._opaque)
        assert answer is not None
        return popped(answer)

    def call(self, code: int, header: Any, body: bytes = b"") -> Command:
        """Submit a request, flush, and return its answer."""
        opaque = self.ask(self.client, code, header, body)
        self.flush()
        answer = self.answer_to(opaque)
        assert answer is not None
        return answer

    def ack_of(self, message: PoppedMessage, code: int = RequestCode.ACK_MESSAGE, **fields: Any) -> Command:
        """Acknowledge as the Java client does: it names the topic from the flag."""
        return self.call(code, ack_fields(message, **fields))


def popped(answer: Command) -> list[PoppedMessage]:
    """Return the messages of a reply, with the extra info that the Java client makes."""
    if answer.code:
        return []
    header = answer.read(PopReplyHeader)
    starts = _info(header.start_offset_info or "")
    offsets = _info(header.msg_offset_info or "")
    stamp = PopStamp(header.pop_time, header.invisible_time, header.revive_qid)
    found: list[PoppedMessage] = []
    for record in scan_records(answer.body):
        own = record.property_map().get(POP_CK)
        place = ("0", record.queue_id)
        if own is None:
            assert str(record.queue_offset) in offsets[place].split(",")
            own = extra_info(int(starts[place]), stamp, "0", BROKER, record.queue_id, record.queue_offset)
        found.append(PoppedMessage(record, own))
    return found


def ack_fields(message: PoppedMessage, group: str = "g", **fields: Any) -> dict[str, str]:
    parts = message.extra_info.split(" ")
    topic = message.record.topic.decode()
    return {
        "consumerGroup": group,
        "topic": topic if parts[4] == "0" else f"%RETRY%{group}_{topic}",
        "queueId": parts[6],
        "offset": parts[7],
        "extraInfo": message.extra_info,
        **fields,
    }


def _info(text: str) -> dict[tuple[str, int], str]:
    entries = [one.split(" ") for one in text.split(";") if one]
    found = {(flag, int(queue_id)): rest for flag, queue_id, rest in entries}
    assert len(found) == len(entries), "the Java client fails at a queue named twice"
    return found


__all__ = ["BROKER", "PopSide", "PoppedMessage", "ack_fields", "popped"]
