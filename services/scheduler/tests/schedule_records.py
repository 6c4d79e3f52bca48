"""Records of delayed messages as stores hold them."""

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import build_record

HOST = pack_host("127.0.0.1", 10911)
V6 = pack_host("::1", 10911)


def record(
    topic, queue_id, offset, position=0, store_ms=1000, body=b"hello", born=HOST, host=HOST, **properties
):
    return build_record(
        topic.encode(),
        queue_id,
        offset,
        position,
        body,
        format_properties(properties),
        0,
        0,
        1,
        born,
        store_ms,
        host,
    )
