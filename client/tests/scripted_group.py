"""A broker in this process with one group, and a push consumer on it, for tests of a consumer's requests and their timing."""

from received import record_bytes

from gantry_wire.bodies.clients import (
    ConsumerIdList,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
)
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantrymq import ConsumeFromWhere, PushConsumer

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MESSAGES = 5
"""In each queue."""


class GroupBroker:
    """Keeps members, offsets and locks of one group, and has the same messages in every queue."""

    def __init__(self, name="broker-a"):
        self.name, self.address = name, ""
        self.members: list[str] = []
        self.strangers: list[str] = []
        """Members in other processes."""
        self.offsets: dict[tuple[str, int], int] = {}
        self.locked: set[tuple[str, int]] = set()
        self.received, self.back, self.peers, self.held = [], [], [], []

    def __call__(self, peer, frame):
        command = decode_command(frame)
        if command.is_response:
            return
        self.peers.append(peer)
        if command.code == RequestCode.PULL_MESSAGE:
            self.pull(peer, command)
            return
        code, fields, body = self.answer(command)
        self.received.append(command.code)
        if not command.is_oneway:
            peer.send(encode_response(code, command.opaque, fields, body))

    def answer(self, command):
        ext, ask = command.ext, RequestCode
        queue = (ext.get("topic"), int(ext.get("queueId", -1)))
        if command.code == ask.HEART_BEAT:
            self.members = [decode_body(command.body, HeartbeatData).client_id]
        elif command.code == ask.UNREGISTER_CLIENT:
            self.members = []
        elif command.code == ask.GET_CONSUMER_LIST_BY_GROUP:
            return 0, {}, encode_body(ConsumerIdList(consumer_id_list=[*self.members, *self.strangers]))
        elif command.code == ask.GET_CONSUMER_CONNECTION_LIST:
            return 206, {}, b""
        elif command.code == ask.QUERY_CONSUMER_OFFSET:
            return (0, {"offset": str(self.offsets[queue])}, b"") if queue in self.offsets else (22, {}, b"")
        elif command.code == ask.UPDATE_CONSUMER_OFFSET:
            self.offsets[queue] = int(ext["commitOffset"])
        elif command.code in (ask.LOCK_BATCH_MQ, ask.UNLOCK_BATCH_MQ):
            return 0, {}, self.locks(command)
        elif command.code == ask.CONSUMER_SEND_MSG_BACK:
            self.back.append(int(ext["offset"]))
        return 0, {}, b""

    def pull(self, peer, command):
        offset, queue = int(command.ext["queueOffset"]), int(command.ext["queueId"])
        if offset >= MESSAGES or command.ext["topic"] != "T":
            self.held.append((peer, command.opaque))
            return
        records = b"".join(
            record_bytes(n, b"%d" % n, topic="T", queue=queue) for n in range(offset, MESSAGES)
        )
        fields = {
            "nextBeginOffset": str(MESSAGES), "minOffset": "0", "maxOffset": str(MESSAGES), "suggestWhichBrokerId": "0",
        }  # fmt: skip
        peer.send(encode_response(0, command.opaque, fields, records))

    def locks(self, command):
        wanted = decode_body(command.body, LockBatchRequestBody).mq_set
        queues = {(each.topic, each.queue_id) for each in wanted}
        if command.code == RequestCode.LOCK_BATCH_MQ:
            self.locked |= queues
        else:
            self.locked -= queues
        return encode_body(LockBatchResponseBody(lock_ok_mq_set=wanted))


def consumer_at(address: str, **options) -> PushConsumer:
    consumer = PushConsumer("g", nameservers=address, start=FIRST, **options)
    consumer.subscribe("T")
    return consumer
