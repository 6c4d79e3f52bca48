"""Large settle requests run in slices: what arrives in between comes first, and every item is answered once, in order."""

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.settling.request.slices import ITEMS_MIN, REQUESTS_MAX, Slices
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import SCHEDULE_TOPIC

COUNT = 3 * ITEMS_MIN + 5


@pytest.fixture
def peer():
    return ScriptedPeer()


@pytest.fixture
async def side(peer):
    """COUNT due delayed messages. No time passes, so a slice has the smallest size."""
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    for number in range(COUNT):
        side.delayed(peer, b"m%d" % number)
    side.pass_time(2)
    side.settling.slices.add([], lambda _items, done: done([]), lambda _results: None)
    side.end_turn()
    return side


def ask(side, epoch):
    return side.settle([side.item(offset, deliver()) for offset in range(COUNT)], epoch=epoch)


def delivered(side):
    return [record.body for record in side.records("orders", 0)]


@pytest.mark.anyio
async def test_a_turn_takes_one_slice_and_what_arrives_meanwhile_precedes_the_next(side, peer):
    answers = ask(side, side.claim(peer).epoch)
    assert side.settling.slices.waiting == 1
    side.end_turn()
    side.send(peer, body=b"between")
    for _ in range(COUNT):
        side.flush()
    bodies = delivered(side)
    assert bodies.index(b"between") <= 2 * ITEMS_MIN
    bodies.remove(b"between")
    assert bodies == [b"m%d" % number for number in range(COUNT)]
    (results,) = answers
    assert [(result.offset, result.status) for result in results] == [(n, "settled") for n in range(COUNT)]
    assert side.settling.slices.waiting == 0


@pytest.mark.anyio
async def test_a_request_after_a_long_one_waits_for_its_turn(side, peer):
    epoch = side.claim(peer).epoch
    first = ask(side, epoch)
    second = side.settle([side.item(0, deliver())], epoch=epoch)
    for _ in range(COUNT):
        side.flush()
    assert len(first) == 1
    assert [result.status for result in second[0]] == ["already"]


@pytest.mark.anyio
async def test_a_claim_that_is_lost_between_two_slices_refuses_the_rest_and_keeps_what_was_decided(
    side, peer
):
    epoch = side.claim(peer).epoch
    answers = ask(side, epoch)
    side.end_turn()
    side.settling.claims.release((SCHEDULE_TOPIC, 0), epoch)
    for _ in range(COUNT):
        side.flush()
    (refusal,) = answers
    assert isinstance(refusal, RefusedRequest)
    assert refusal.fields["gantryCode"] == "FENCED"
    done = len(delivered(side))
    assert 0 < done < COUNT
    answers = ask(side, side.claim(peer, owner="s2").epoch)
    for _ in range(COUNT):
        side.flush()
    statuses = [result.status for result in answers[0]]
    assert statuses == ["already"] * done + ["settled"] * (COUNT - done)
    assert delivered(side) == [b"m%d" % number for number in range(COUNT)]


def lined_up(settle):
    """Return slices whose first turn is used up, and a function that ends a turn."""
    turns = []
    slices = Slices(turns.append, lambda: 0.0)
    answers = []
    slices.add(["item"] * 3 * ITEMS_MIN, settle, answers.append)
    return slices, turns, answers


def test_a_failing_later_slice_is_reported_and_harms_no_later_request():
    def broken(items, done):
        if len(taken) == 1:
            raise OSError("no such file")
        taken.append(len(items))
        done([None] * len(items))

    taken = []
    slices, turns, answers = lined_up(broken)
    behind = []
    slices.add([], lambda items, done: done([]), behind.append)
    while turns:
        turns.pop()()
    (refusal,) = answers
    assert refusal.code == 1
    assert "no such file" in refusal.remark
    assert behind == [[]]
    assert slices.waiting == 0


def test_the_number_of_waiting_requests_is_bounded():
    slices, _turns, _answers = lined_up(lambda items, done: done([None] * len(items)))
    for _ in range(REQUESTS_MAX - 1):
        slices.add([], lambda items, done: done([]), lambda results: None)
    with pytest.raises(RefusedRequest, match="OVERLOAD"):
        slices.add([], lambda items, done: done([]), lambda results: None)
