"""Formats leased records as the parts of a ReceiveMessage response. Pure."""

from gantry_wire.errors import MalformedRecord
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.records.message_record import decode_record
from gateway.grpc.messages.delivered import Delivery, delivered_part
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import duration
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.receive.receipts import Receipts
from gateway.receive.received_view import Places, Shown

_RETRY = RETRY_PREFIX.encode()


def shown(ask: ReceiveAsk, broker: str, leased: Leased, receipts: Receipts) -> Shown:
    """Return each leased message as one serialized ReceiveMessageResponse. Raises MalformedRecord."""
    data, broker_bytes, wanted_topic = bytes(leased.records), broker.encode(), ask.topic.encode()
    topic, invisible = Resource(name=ask.topic), duration(ask.invisible_ms)
    parts, places = list[bytes](), list[Places]()
    at = 0
    for count, lease, attempt in leased.runs:
        for _ in range(count):
            record = decode_record(data, at)
            at += record.size
            is_retry = int(record.topic != wanted_topic and record.topic.startswith(_RETRY))
            queue_id, offset = record.queue_id, record.queue_offset
            handle = receipts.make(broker_bytes, is_retry, queue_id, offset, lease).decode()
            parts.append(delivered_part(record, Delivery(topic, handle, attempt, invisible)))
            places.append((is_retry, queue_id, (offset,), lease))
    if at != len(data):
        raise MalformedRecord(f"{len(data) - at} bytes follow the last leased record")
    return Shown(parts, places)
