# ruff: noqa: D102 - the Protocols say what these methods promise
"""A message that waits in a system queue, and is answered for the queue it was sent to."""

from broker_store.commit.message import FSYNC_FIELD, WRITTEN_FIELD, Message, Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import RecordWriter
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.encode import encode_response, encode_send_reply
from gantry_wire.messages.ids import offset_message_id


class SpecialMessage(Message):
    """A message stored in another queue than the one it was sent to. Subclasses know what it waits for.

    A system queue holds messages of many topics. They become visible only after the flush, even where their
    topic answers after the write: no message may overtake another in its queue.
    """

    __slots__ = ("target_queue_id",)

    def __init__(self, message: Message, queue: Queue, properties: bytes) -> None:
        super().__init__(
            queue, message.body, properties, message.tags_code, message.unique_key, message.keys,
            Mode.EARLY if message.mode == Mode.ASYNC else message.mode, message.peer, message.opaque, message.flag,
            message.sys_flag, message.born_ms, message.born_host, message.reconsume_times,
        )  # fmt: skip
        self.target_queue_id = message.queue.queue_id

    def reply_place(self) -> tuple[int, dict[str, str]]:
        return self.target_queue_id, {}

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        message_id = offset_message_id(at.store_host, self.position)
        queue_id, more = self.reply_place()
        if not code:
            extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
            if more:
                extra += json_fields(more)
            peer.send(
                encode_send_reply(self.opaque, message_id, queue_id, self.offset, self.unique_key, extra)
            )
            return
        fields = {
            "msgId": message_id,
            "queueId": str(queue_id),
            "queueOffset": str(self.offset),
            "transactionId": self.unique_key,
            "durability": "written",
            **more,
        }
        peer.send(encode_response(code, self.opaque, fields, remark=code.name))


def json_fields(fields: dict[str, str]) -> bytes:
    """Return further fields of a send reply in their JSON form.

    Their values are numbers and Base64 and need no escaping.
    """
    return "".join(f',"{name}":"{value}"' for name, value in fields.items()).encode()
