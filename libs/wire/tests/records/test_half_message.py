"""Golden bytes of the half message in a transaction check and of op messages."""

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.half_message import op_body, sent_message
from gantry_wire.records.message_record import build_record, decode_record

HOST = pack_host("127.0.0.1", 10911)
PROPERTIES = format_properties(
    {"UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": "pg", "REAL_TOPIC": "orders", "REAL_QID": "3"}
)

GOLDEN = (
    "000000a5daa320a77e8f223c0000000300000001000000000000000700000000000010000000000000000000000003e8"
    "7f00000100002a9f00000000000007d07f00000100002a9f00000000000000000000000000000003706179066f726465"
    "72730041554e49515f4b4559015531025452414e5f4d53470174727565025047524f5550017067025245414c5f544f50"
    "4943016f7264657273025245414c5f514944013302"
)


def test_a_half_becomes_the_sent_message_with_its_position():
    half = build_record(
        b"RMQ_SYS_TRANS_HALF_TOPIC", 0, 7, 4096, b"pay", PROPERTIES, 1, 0, 1000, HOST, 2000, HOST
    )
    shown = decode_record(sent_message(half))
    assert (shown.topic, shown.queue_id) == (b"orders", 3)
    assert (shown.queue_offset, shown.position, shown.body) == (7, 4096, b"pay")
    assert shown.properties == PROPERTIES
    assert sent_message(half).hex() == GOLDEN


def test_an_op_message_contains_the_offset_of_the_half_in_decimal():
    assert op_body(0) == b"0"
    assert op_body(12_345_678_901) == b"12345678901"
