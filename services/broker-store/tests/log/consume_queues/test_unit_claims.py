"""A record is compared with every claim of its unit; a run of records by its ends and their number."""

import pytest

from broker_store.commit.queues import Queue
from broker_store.log.consume_queues.unit_claims import Claims, check_record
from broker_store.log.errors import DamagedRecord
from gantry_wire.messages.ids import pack_host
from gantry_wire.records.message_record import build_record

V4, V6 = pack_host("127.0.0.1", 10911), pack_host("::1", 10911)
OFFSET, POSITION = 7, 4096


def queue_of(topic="orders", queue_id=2):
    return Queue(topic, queue_id, None, 0)


def record_of(topic="orders", queue_id=2, offset=OFFSET, position=POSITION, body=b"body", hosts=(V4, V4)):
    born_host, store_host = hosts
    return build_record(
        topic.encode(), queue_id, offset, position, body, b"", 0, 0, 5, born_host, 6, store_host
    )


@pytest.mark.parametrize("hosts", [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
@pytest.mark.parametrize("topic", ["orders", "o" * 200])
@pytest.mark.parametrize("body", [b"", b"body"])
def test_the_record_that_its_unit_names_passes_and_any_other_claim_fails(hosts, topic, body):
    record = record_of(topic, body=body, hosts=hosts)
    queue, size = queue_of(topic), len(record)
    check_record(queue, OFFSET, POSITION, size, record)
    check_record(queue, OFFSET, POSITION, size, b"before" + record + b"after", len(b"before"))
    for claims in (
        (queue, OFFSET + 1, POSITION, size, record),
        (queue, OFFSET, POSITION + 1, size, record),
        (queue, OFFSET, POSITION, size + 1, record),
        (queue_of(topic, 3), OFFSET, POSITION, size, record),
        (queue_of(topic[:-1] + "t"), OFFSET, POSITION, size, record),
        (queue_of(topic + "s"), OFFSET, POSITION, size, record),
        (queue, OFFSET, POSITION, size, record[1:]),
        (queue, OFFSET, POSITION, size, record[:60]),
        (queue, OFFSET, POSITION, size, b""),
    ):
        with pytest.raises(DamagedRecord):
            check_record(*claims)


def run_of(*records):
    """Return the claims about the records of the queue among these, and all their bytes."""
    data, offsets, positions, sizes = b"", [], [], []
    for number, (queue_id, body) in enumerate(records):
        record = record_of(queue_id=queue_id, offset=number, position=len(data), body=body)
        if queue_id == 2:
            offsets.append(number)
            positions.append(len(data))
            sizes.append(len(record))
        data += record
    return Claims(queue_of(), offsets, positions, sizes), data


def test_records_that_fill_the_data_pass():
    claims, data = run_of((2, b"a"), (2, b"bb"), (2, b"ccc"))
    claims.check([data])


def test_a_flipped_size_does_not_hide_another_record_in_a_run():
    claims, data = run_of((2, b"a"), (2, b"b"), (1, b"x" * (128 - 97)), (2, b"c"))
    claims.sizes[1] ^= 128
    assert sum(claims.sizes) == len(data)
    with pytest.raises(DamagedRecord):
        claims.check([data])


@pytest.mark.parametrize("number", [0, 2])
def test_the_ends_of_a_run_are_compared_in_full(number):
    claims, data = run_of((2, b"a"), (2, b"b"), (2, b"c"))
    claims.offsets[number] += 4
    with pytest.raises(DamagedRecord):
        claims.check([data])


@pytest.mark.parametrize("data", [b"", bytes(300), b"\xff" * 300])
def test_what_is_no_record_fails(data):
    claims, _ = run_of((2, b"a"), (2, b"b"), (2, b"c"))
    with pytest.raises(DamagedRecord):
        claims.check([data])


def test_fewer_parts_than_records_fail():
    claims, data = run_of((2, b"a"), (1, b"x"), (2, b"b"), (2, b"c"))
    with pytest.raises(DamagedRecord):
        claims.check([data[:97], data[-97:]])
