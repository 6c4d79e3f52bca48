"""Items requested ahead are decided at their time: kept until then, overtaken by an earlier decision, refused with their claim."""

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.settling.request.ahead import ITEMS_MAX
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SETTLE_AHEAD_MS_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
def peer():
    return ScriptedPeer()


@pytest.fixture
async def side(peer):
    """Three messages of level 1, due 100 ms apart, the first in 0.7 s."""
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    for number in range(3):
        side.delayed(peer, b"m%d" % number)
        side.pass_time(0.1)
    return side


def due_ms(side, offset):
    return side.unit(SCHEDULE_TOPIC, 0, offset)[2]


def ahead(side, offset, **more):
    return side.item(offset, deliver(), at_ms=due_ms(side, offset), **more)


def pass_time(side, seconds):
    side.pass_time(seconds)
    side.flush()


def delivered(side):
    return [record.body for record in side.records("orders", 0)]


async def test_each_item_is_decided_at_its_time_and_the_request_answered_with_the_last(side, peer):
    answers = side.settle([ahead(side, 2), ahead(side, 0), ahead(side, 1)], epoch=side.claim(peer).epoch)
    side.flush()
    assert delivered(side) == []
    assert side.timer.seconds == [pytest.approx(0.7)]
    pass_time(side, 0.699)
    assert delivered(side) == []
    pass_time(side, 0.002)
    assert delivered(side) == [b"m0"]
    pass_time(side, 0.1)
    assert delivered(side) == [b"m0", b"m1"]
    assert not answers
    pass_time(side, 0.1)
    assert delivered(side) == [b"m0", b"m1", b"m2"]
    (results,) = answers
    assert [(result.offset, result.status) for result in results] == [
        (2, "settled"), (0, "settled"), (1, "settled"),
    ]  # fmt: skip
    assert all(0 <= result.time_ms - due_ms(side, result.offset) <= 2 for result in results)
    assert side.settling.ahead.waiting == 0


async def test_items_that_are_due_do_not_wait_for_the_rest_of_their_request(side, peer):
    side.pass_time(0.75)
    answers = side.settle([ahead(side, 1), ahead(side, 0)], epoch=side.claim(peer).epoch)
    side.flush()
    assert delivered(side) == [b"m0"]
    pass_time(side, 0.1)
    assert [result.status for result in answers[0]] == ["settled", "settled"]


async def test_an_earlier_decision_meanwhile_wins(side, peer):
    epoch = side.claim(peer).epoch
    answers = side.settle([ahead(side, 0), ahead(side, 1)], epoch=epoch)
    assert side.settled([side.item(0, outcome="cancelled")], epoch=epoch)[0].status == "settled"
    pass_time(side, 1.2)
    assert [(result.status, result.outcome) for result in answers[0]] == [
        ("already", "cancelled"),
        ("settled", ""),
    ]
    assert delivered(side) == [b"m1"]


async def test_a_claim_lost_meanwhile_refuses_the_kept_items(side, peer):
    answers = side.settle([ahead(side, 0), ahead(side, 1)], epoch=side.claim(peer).epoch)
    side.settling.closed(peer.id)
    other = side.settle([ahead(side, 0)], epoch=side.claim(ScriptedPeer(port=2), owner="s2").epoch)
    pass_time(side, 1.2)
    (refusal,) = answers
    assert isinstance(refusal, RefusedRequest)
    assert refusal.fields["gantryCode"] == "FENCED"
    assert [result.status for result in other[0]] == ["settled"]
    assert delivered(side) == [b"m0"]


async def test_a_time_that_is_wrong_makes_nothing_early(side, peer):
    item = side.item(0, deliver(), at_ms=side.clock.now_ms() + 1)
    answers = side.settle([item], epoch=side.claim(peer).epoch)
    pass_time(side, 0.5)
    assert [result.status for result in answers[0]] == ["early"]


async def test_items_too_far_ahead_are_not_kept(side, peer):
    far = side.item(0, deliver(), at_ms=side.clock.now_ms() + SETTLE_AHEAD_MS_MAX + 1)
    assert side.settled([far], epoch=side.claim(peer).epoch)[0].status == "early"
    assert side.settling.ahead.waiting == 0


async def test_no_more_is_kept_than_fits(side, peer):
    epoch = side.claim(peer).epoch
    side.settling.ahead.waiting = ITEMS_MAX
    with pytest.raises(RefusedRequest, match="OVERLOAD"):
        side.settle([ahead(side, 0)], epoch=epoch)


async def test_a_store_that_stops_keeps_nothing(side, peer):
    answers = side.settle([ahead(side, 0)], epoch=side.claim(peer).epoch)
    side.settling.ahead.close()
    pass_time(side, 1.2)
    assert answers == []
    assert delivered(side) == []
    assert side.timer.is_closed
