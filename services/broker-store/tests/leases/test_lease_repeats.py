"""A receipt handle repeated within a request: each item is answered as in a request of its own, in their order."""

import asyncio
import random

import pytest
from leasing_side import Given, LeasingSide, bodies, item

from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItem, LeaseItemsHeader, pack_items

pytestmark = pytest.mark.anyio
ACK, NACK = ItemKind.ACK, ItemKind.NACK
DONE, EXPIRED = ItemStatus.DONE, ItemStatus.EXPIRED


def received() -> tuple[LeasingSide, list[Given]]:
    side = LeasingSide()
    side.put(*"abcdef")
    return side, side.lease()


async def test_the_first_of_an_ack_and_a_nack_of_one_message_is_carried_out_and_the_other_is_too_late(
    anyio_backend,
):
    side, (one, other, *_) = received()
    assert side.settle(item(one, ACK), item(other, NACK), item(one, NACK), item(other, ACK)) == [
        DONE,
        DONE,
        EXPIRED,
        EXPIRED,
    ]
    assert bodies(side.lease()) == ["b"]


async def test_of_two_long_delays_for_one_message_the_first_counts(anyio_backend):
    side, (one, *_) = received()
    header = LeaseItemsHeader(group="g", topic="orders")
    items = pack_items([item(one, NACK, 40_000), item(one, NACK, 50_000)])
    opaque = side.ask(side.client, GantryCode.ACK, header, items)
    async with asyncio.timeout(60):
        while (
            side.answer_to(opaque) is None
        ):  # the message is written to the delays before it is settled here
            await asyncio.sleep(0.005)
            side.flush()
    answer = side.answer_to(opaque)
    assert answer is not None
    assert list(answer.body) == [DONE, EXPIRED]


@pytest.mark.parametrize("seed", range(40))
async def test_one_request_answers_as_single_requests_would(anyio_backend, seed):
    chance = random.Random(seed)
    together, messages = received()
    apart, same = received()
    chosen = [
        (chance.randrange(len(messages)), chance.choice((ACK, NACK)), chance.choice((0, 5_000)))
        for _ in range(chance.randrange(1, 16))
    ]
    if seed % 4 == 0:  # expired leases of messages delivered again
        for side in (together, apart):
            side.pass_time(31)
            side.lease(max_messages=3)

    def items(of: list[Given]) -> list[LeaseItem]:
        return [item(of[n], kind, delay_ms) for n, kind, delay_ms in chosen]

    answered = together.settle(*items(messages))
    assert answered == [status for one in items(same) for status in apart.settle(one)]
    for side in (together, apart):
        side.pass_time(40)
    assert bodies(together.lease()) == bodies(apart.lease())
    assert together.committed() == apart.committed()
