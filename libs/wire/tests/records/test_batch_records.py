"""Records built together equal records built one by one."""

import pytest

from gantry_wire.messages.ids import pack_host
from gantry_wire.records.batch_records import build_records, record_sizes
from gantry_wire.records.message_record import build_record

V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("2001:db8::1", 10911)
UNEVEN = [(0, b"", b""), (7, b"body", b"a\x01b\x02"), (-1, bytes(300), b"k\x01v\x02" * 9)]
EVEN = [(7, b"body", b"a\x01b\x02"), (7, b"else", b"a\x01c\x02"), (7, b"\xff\xfe\xfd\xfc", b"a\x01\xc3\xa9")]
SIZES_CROSS = [(7, b"four", b"a\x01bb\x02"), (7, b"five5", b"a\x01b\x02")]
ONE_FLAG_DIFFERS = [(7, b"body", b""), (-7, b"else", b"")]


MANY = [(7, b"body%04d" % number, b"a\x01%04d\x02" % number) for number in range(70)]
"""More than one call packs."""


@pytest.mark.parametrize(
    "messages", [UNEVEN, EVEN, EVEN[:1], MANY, MANY[:32], MANY[:33], SIZES_CROSS, ONE_FLAG_DIFFERS]
)
@pytest.mark.parametrize("topic", [b"orders", b"t" * 127, b"t" * 128])
@pytest.mark.parametrize("hosts", [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_records_built_together_equal_single_records(topic, hosts, messages):
    born, store = hosts
    singles, positions, position = [], [], 2**40
    for number, (flag, body, properties) in enumerate(messages):
        positions.append(position)
        singles.append(
            build_record(
                topic, 3, 40 + number, position, body, properties, flag, 0x31, 11, born, 22, store, 2
            )
        )
        position += len(singles[-1])
    assert build_records(
        topic, 3, 40, positions, *zip(*messages, strict=True), 0x31, 11, born, 22, store, 2
    ) == b"".join(singles)


@pytest.mark.parametrize("messages", [UNEVEN, EVEN, SIZES_CROSS])
def test_computed_sizes_equal_the_sizes_of_built_records(messages):
    _, bodies, properties = zip(*messages, strict=True)
    assert record_sizes(100, bodies, properties) == [100 + len(body) + len(own) for _, body, own in messages]
