"""A damaged unit of an earlier run, whatever it points to: readers get every other message, and never a wrong one."""

import asyncio

import pytest
from leasing_side import LeasingSide, given

from broker_store.leases.lease_table.runs import Kind, Run
from broker_store.leases.queue_scan import Scanner
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import PullHeader, PullReplyHeader
from gantry_wire.private_requests.leases import ReceiveReplyHeader
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleStatus
from gantry_wire.records.message_record import scan_records
from gantry_wire.records.units import CONSUME_QUEUE_UNIT, CONSUME_QUEUE_UNIT_BYTES

pytestmark = pytest.mark.anyio
COUNT = 6
DAMAGED = 3
"""Offset of the damaged unit."""
NEW = 20
"""Messages of this run."""
UNITS_FILE = "/store/consumequeue/orders/0/00000000000000000000"


def unit_of(side, topic="orders", queue_id=0, offset=DAMAGED):
    return CONSUME_QUEUE_UNIT.unpack(side.queues.find(topic, queue_id).read(offset, 1))


def damage(side, position, size):
    code = unit_of(side)[2]
    unit = CONSUME_QUEUE_UNIT.pack(position, size, code)
    side.files.write_at(UNITS_FILE, DAMAGED * CONSUME_QUEUE_UNIT_BYTES, unit)
    assert unit_of(side) == (position, size, code)


async def stored(*, is_scattered):
    """Return a store with messages of an earlier run and of this one. All its records have the same size."""
    side = LeasingSide()
    if is_scattered:
        for number in range(COUNT):
            put(side, f"old{number}", "orders", 0)
            put(side, f"els{number}", "orders", 1)
            put(side, f"top{number}", "trades", 0)
    else:
        for topic, queue_id, body in (("orders", 0, "old"), ("orders", 1, "els"), ("trades", 0, "top")):
            for number in range(COUNT):
                put(side, f"{body}{number}", topic, queue_id)
    await side.sending.checkpoints.close()
    side = side.reopen()
    for number in range(NEW):
        put(side, f"n{number:03}", "orders", 0)
    return side


def put(side, body, topic, queue_id):
    side.put(body, topic=topic, queue_id=queue_id, TAGS="red", n="9")


def middle_of_a_new_record(side):
    position, size, _ = unit_of(side, offset=COUNT + 1)
    return position + 40, size


def place_of(topic="orders", queue_id=0, offset=DAMAGED):
    return lambda side: unit_of(side, topic, queue_id, offset)[:2]


DAMAGES = {
    "the middle of a record of this run": middle_of_a_new_record,
    "a record of this run": place_of(offset=COUNT + 1),
    "the next record": place_of(offset=DAMAGED + 1),
    "the record before": place_of(offset=DAMAGED - 1),
    "another queue": place_of(queue_id=1),
    "another topic": place_of(topic="trades"),
    "two records": lambda side: (unit_of(side)[0], 2 * unit_of(side)[1]),
}


async def pulled(side, count, **filters):
    """Pull to the end of the queue. Returns the bodies."""
    found, offset = [], 0
    while offset < side.queues.find("orders", 0).max_offset:
        header = PullHeader(
            consumer_group="g", topic="orders", queue_id=0, queue_offset=offset, max_msg_nums=count,
            sys_flag=4, commit_offset=0, suspend_timeout_millis=0, sub_version=0, **filters,
        )  # fmt: skip
        opaque = side.ask(side.client, RequestCode.PULL_MESSAGE, header)
        async with asyncio.timeout(60):
            while (answer := side.answer_to(opaque)) is None:
                await asyncio.sleep(0.005)
        assert answer.code in (0, 19, 20)
        found += [record.body.decode() for record in scan_records(answer.body)]
        next_offset = answer.read(PullReplyHeader).next_begin_offset
        assert next_offset > offset
        offset = next_offset
    return found


async def leased(side, **fields):
    """Receive until nothing is left. Returns the bodies from the queue with the damaged unit."""
    found = []
    async with asyncio.timeout(60):
        while True:
            opaque = side._opaque + 1
            answer = side.lease_raw(**fields)
            while answer is None:
                await asyncio.sleep(0.005)
                side.flush()
                answer = side.answer_to(opaque)
            messages = given(answer)
            found += [one.body for one in messages if one.record.body[:3] != b"els"]
            if not messages and not answer.read(ReceiveReplyHeader).more:
                return found


READERS = {
    "pull of one": lambda side: pulled(side, 1, subscription="*"),
    "pull up to the damaged one": lambda side: pulled(side, DAMAGED + 1, subscription="*"),
    "pull of all": lambda side: pulled(side, 32, subscription="*"),
    "pull by tag": lambda side: pulled(side, 32, subscription="red"),
    "pull by property": lambda side: pulled(side, 32, subscription="n > 5", expression_type="SQL92"),
    "receive": leased,
    "receive of one": lambda side: leased(side, max_messages=1),
    "receive by property": lambda side: leased(side, expression="n > 5", expression_type="SQL92"),
}


@pytest.mark.parametrize("is_scattered", [False, True])
@pytest.mark.parametrize("names", DAMAGES)
@pytest.mark.parametrize("reader", READERS)
async def test_a_reader_gets_every_other_message_and_never_a_wrong_one(reader, names, is_scattered):
    side = await stored(is_scattered=is_scattered)
    side.set_group()
    damage(side, *DAMAGES[names](side))
    expected = [f"old{number}" for number in range(COUNT) if number != DAMAGED]
    expected += [f"n{number:03}" for number in range(NEW)]
    assert await READERS[reader](side) == expected
    assert side.foundation.reading.metrics.damaged_records == 1


async def test_an_item_whose_unit_names_another_record_is_not_settled_with_that_record():
    side = await stored(is_scattered=True)
    position, size = DAMAGES["another topic"](side)
    damage(side, position, size)
    results = []
    item = SettleItem(DAMAGED, position, [SettleOutput("trades", 0, body="item", properties="item")])
    side.sending.settling.settle("orders", 0, "g", None, [item], results.append)
    async with asyncio.timeout(60):
        while not results:
            await asyncio.sleep(0.005)
            side.flush()
    assert [result.status for result in results[0]] == [SettleStatus.BAD_ITEM]


async def test_a_dead_letter_is_not_made_from_another_record():
    side = await stored(is_scattered=True)
    queue = side.queues.find("orders", 0)
    damage(side, *DAMAGES["another topic"](side))
    scanner = Scanner(side.log, side.foundation.reading.metrics)
    (place,) = scanner.places(queue, Run(DAMAGED, 1, Kind.DEAD))
    assert scanner.read_record(queue, place, may_wait=True) is None
