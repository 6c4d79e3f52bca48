"""Claims: one owner at a time, identified by an epoch that never repeats."""

import itertools

import msgspec
import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.settling.claims import ClaimTable, raise_boot_count
from gantry_chassis.machine.environment import machine
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import (
    CLAIM_QUEUES_MAX,
    ClaimBody,
    ClaimHeader,
    ClaimHolderHeader,
    ClaimHolderReplyHeader,
    ClaimQueue,
    ClaimReplyBody,
    MessageEventsBody,
    MessageEventsHeader,
    ReleaseClaimHeader,
    SettleBody,
    SettleHeader,
    SettleReplyBody,
    StoreTimeReplyHeader,
    decode_json,
)

pytestmark = pytest.mark.anyio
KEY = ("t", 0)


def table(boot=1):
    return ClaimTable(boot, machine().secret_below)


def claim(claims, owner="a", now_ms=0, peer=1, ttl_ms=3000):
    (granted,) = claim_all(claims, [KEY], owner, now_ms, peer, ttl_ms)
    return granted


def claim_all(claims, keys, owner="a", now_ms=0, peer=1, ttl_ms=3000):
    return claims.claim(keys, owner, "h:1", ttl_ms, peer, now_ms)


def test_a_claim_belongs_to_its_owner_until_it_expires():
    claims = table()
    first = claim(claims)
    with pytest.raises(RefusedRequest) as refused:
        claim(claims, "b", 2999)
    assert refused.value.fields == {"gantryCode": "HELD", "heldBy": "a", "address": "h:1", "leftMs": "1"}
    assert claims.holder(KEY, 2999) is first
    assert claims.holder(KEY, 3000) is None
    assert claim(claims, "b", 3000).epoch > first.epoch


def test_renewing_keeps_the_epoch_and_restarts_the_time():
    claims = table()
    first = claim(claims)
    epoch = first.epoch
    assert claim(claims, now_ms=2000).epoch == epoch
    claims.check(KEY, epoch, 4000)
    assert claims.holder(KEY, 6999) is first


def test_an_epoch_that_was_replaced_released_or_closed_is_over():
    claims = table()
    old = claim(claims).epoch
    new = claim(claims, "b", 3000).epoch
    for epoch in (old, new + 1, 0):
        with pytest.raises(RefusedRequest) as refused:
            claims.check(KEY, epoch, 3000)
        assert refused.value.fields["gantryCode"] == "FENCED"
    assert not claims.release(KEY, old)
    assert claims.release(KEY, new)
    with pytest.raises(RefusedRequest):
        claims.check(KEY, new, 3000)
    third = claim(claims, now_ms=3000, peer=7)
    assert claims.close_peer(8) == []
    assert claims.close_peer(7) == [KEY]
    assert claim(claims, "b", 3000).epoch > third.epoch


def test_an_expired_claim_without_a_new_owner_continues():
    claims = table()
    epoch = claim(claims).epoch
    claims.check(KEY, epoch, 9000)
    assert claims.holder(KEY, 11_999) is not None


def test_the_same_owner_over_a_new_connection_keeps_its_claim_when_the_old_one_ends():
    claims = table()
    epoch = claim(claims, peer=1).epoch
    assert claim(claims, peer=2, now_ms=10).epoch == epoch
    assert claims.close_peer(1) == []


FIRST, SECOND, THIRD, FOURTH = (("t", queue_id) for queue_id in range(4))


def test_a_claim_on_several_queues_grants_all_of_them_or_none():
    claims = table()
    (held,) = claim_all(claims, [THIRD], "b")
    claim_all(claims, [FOURTH], "c")
    with pytest.raises(RefusedRequest) as refused:
        claim_all(claims, [FIRST, SECOND, THIRD, FOURTH])
    assert refused.value.fields == {"gantryCode": "HELD", "heldBy": "b", "address": "h:1", "leftMs": "3000"}
    assert set(claims.all(0)) == {THIRD, FOURTH}
    assert claims.holder(THIRD, 0) is held
    granted = claim_all(claims, [FIRST, SECOND, THIRD, FOURTH], now_ms=3000)
    assert [one.owner for one in granted] == ["a"] * 4
    assert len({one.epoch for one in granted}) == 4


def test_the_holder_of_the_first_held_queue_in_the_order_of_the_request_is_reported():
    claims = table()
    claim_all(claims, [THIRD], "b")
    claim_all(claims, [SECOND], "c")
    for keys, holder in (([FIRST, THIRD, SECOND], "b"), ([FIRST, SECOND, THIRD], "c")):
        with pytest.raises(RefusedRequest) as refused:
            claim_all(claims, keys)
        assert refused.value.fields["heldBy"] == holder


def test_a_refused_renewal_renews_no_queue_and_moves_none_to_another_connection():
    claims = table()
    before = claim_all(claims, [FIRST, SECOND], peer=1)
    claims.release(SECOND, before[1].epoch)
    claim_all(claims, [SECOND], "b", now_ms=1000, peer=2)
    with pytest.raises(RefusedRequest):
        claim_all(claims, [FIRST, SECOND], now_ms=2000, peer=3)
    assert claims.holder(FIRST, 2999) is before[0]
    assert claims.holder(FIRST, 3000) is None
    assert claims.close_peer(3) == []
    assert claims.close_peer(1) == [FIRST]


def test_an_owner_that_holds_a_part_keeps_those_epochs_and_gets_new_ones_for_the_rest():
    claims = table()
    before = [one.epoch for one in claim_all(claims, [FIRST, THIRD])]
    after = [one.epoch for one in claim_all(claims, [FIRST, SECOND, THIRD], now_ms=10, peer=2)]
    assert [after[0], after[2]] == before
    assert after[1] > max(before)
    assert sorted(claims.close_peer(2)) == [FIRST, SECOND, THIRD]


def test_of_two_owners_with_different_lists_one_holds_its_whole_list_and_the_other_nothing_new():
    claims = table()
    ours = claim_all(claims, [FIRST, SECOND, THIRD], "a")
    with pytest.raises(RefusedRequest):
        claim_all(claims, [FOURTH, THIRD, SECOND], "b", now_ms=2999)
    assert claims.holder(FOURTH, 2999) is None
    theirs = claim_all(claims, [FOURTH, THIRD, SECOND], "b", now_ms=3000)
    with pytest.raises(RefusedRequest):
        claim_all(claims, [FIRST, SECOND, THIRD], "a", now_ms=3000)
    assert claims.holder(FIRST, 3000) is None
    claims.check(FIRST, ours[0].epoch, 3000)  # no other owner took it
    for key, lost, won in ((SECOND, ours[1], theirs[2]), (THIRD, ours[2], theirs[1])):
        claims.check(key, won.epoch, 3000)
        with pytest.raises(RefusedRequest):
            claims.check(key, lost.epoch, 3000)


def test_a_queue_that_is_named_twice_is_claimed_once():
    claims = table()
    once, again = claim_all(claims, [FIRST, FIRST])
    assert once is again
    assert set(claims.all(0)) == {FIRST}


def test_every_start_has_epochs_above_all_before():
    files = SimulatedFiles()
    files.make_dirs("/store")
    counts = [raise_boot_count(files, "/store") for _ in range(3)]
    assert counts == [1, 2, 3]
    assert all(
        claim(table(later)).epoch > claim(table(earlier)).epoch
        for earlier, later in itertools.pairwise(counts)
    )
    disk = next(iter(files.crash_states(1, 0)))
    assert raise_boot_count(disk, "/store") == 4


def test_epochs_of_a_start_cannot_be_guessed_from_those_of_another():
    firsts = {claim(table()).epoch for _ in range(20)}
    assert len(firsts) == 20
    assert max(firsts) - min(firsts) > 2**32
    claims = table()
    epochs = [claim(claims, str(number), number * 3000).epoch for number in range(50)]
    steps = [later - earlier for earlier, later in itertools.pairwise(epochs)]
    assert min(steps) > 0
    assert len(set(steps)) > 40


@pytest.mark.parametrize("draw", [lambda below: 0, lambda below: below - 1, lambda below: below // 2])
def test_epochs_only_rise_and_stay_below_those_of_the_next_start(draw):
    claims = ClaimTable(1, draw)
    epochs = [claim(claims, str(number % 2), number * 3000).epoch for number in range(10_000)]
    assert all(later > earlier for earlier, later in itertools.pairwise(epochs))
    assert epochs[-1] < claim(ClaimTable(2, lambda _: 0)).epoch
    assert claim(ClaimTable(2**23 - 1, lambda below: below - 1)).epoch < 2**63


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        ("scheduler@h:1#7-0123456789abcdef0123456789abcdef", "scheduler@h:1#7"),
        ("scheduler@h:1#7-0123456789abcdef0123456789abcdef task-1", "scheduler@h:1#7 task-1"),
        ("a", "a"),
    ],
)
def test_the_random_part_of_an_owner_stays_secret_because_it_could_renew_its_claim(owner, shown):
    claims = table()
    held = claim(claims, owner)
    assert held.shown_owner == shown
    for refused_call in (lambda: claim(claims, "b"), lambda: claims.check(KEY, 0, 0)):
        with pytest.raises(RefusedRequest) as refused:
            refused_call()
        assert refused.value.fields["heldBy"] == shown
        assert "0123456789abcdef" not in str(refused.value)


def test_epochs_rise_over_those_of_the_layout_before():
    assert all(
        claim(ClaimTable(boot + 1, lambda _: 0)).epoch > (boot << 32 | 2**32 - 1) for boot in (0, 1, 7, 2**22)
    )


@pytest.fixture
def peer():
    return ScriptedPeer()


def settle(side, peer, epoch, items):
    header = SettleHeader(topic=SCHEDULE_TOPIC, queue_id=0, epoch=epoch)

    side.ask(peer, GantryCode.SETTLE, header, msgspec.json.encode(SettleBody(items)))
    side.flush()
    return peer.answers[-1]


async def test_claim_settle_state_and_holder_over_the_wire(peer):
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    side.delayed(peer, b"a")
    side.delayed(peer, b"b")
    side.pass_time(2)
    claimed = side.claim(peer)
    assert (claimed.cursor, claimed.max_offset) == (0, 2)
    assert claimed.epoch >> 40 == 1
    answer = settle(side, peer, claimed.epoch, [side.item(1, deliver(), outcome="delivered")])
    body = decode_json(answer.body, SettleReplyBody)
    assert (body.results[0].status, body.cursor) == ("settled", 0)
    assert side.state(peer).settled == [(1, 2)]
    side.ask(peer, GantryCode.CLAIM_HOLDER, ClaimHolderHeader(topic=SCHEDULE_TOPIC, queue_id=0))
    holder = peer.answers[-1].read(ClaimHolderReplyHeader)
    assert (holder.held_by, holder.address, holder.until_ms) == (
        "s1",
        "127.0.0.1:10921",
        side.clock.now_ms() + 3000,
    )
    side.ask(peer, GantryCode.MESSAGE_EVENTS, MessageEventsHeader(topic=SCHEDULE_TOPIC, queue_id=0, offset=1))
    (event,) = decode_json(peer.answers[-1].body, MessageEventsBody).events
    assert (event.kind, event.outcome, event.outputs[0].topic) == ("settled", "delivered", "orders")
    side.ask(
        peer,
        GantryCode.RELEASE_CLAIM,
        ReleaseClaimHeader(topic=SCHEDULE_TOPIC, queue_id=0, epoch=claimed.epoch),
    )
    side.ask(peer, GantryCode.CLAIM_HOLDER, ClaimHolderHeader(topic=SCHEDULE_TOPIC, queue_id=0))
    assert peer.answers[-1].read(ClaimHolderReplyHeader).held_by is None
    side.ask(peer, GantryCode.STORE_TIME)
    assert peer.answers[-1].read(StoreTimeReplyHeader).store_time_ms == side.clock.now_ms()


async def test_a_replaced_owner_decides_nothing(peer):
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    side.delayed(peer)
    old = side.claim(peer, owner="old")
    held = side.claim(peer, owner="new")
    assert held.ext["gantryCode"] == "HELD"
    assert int(held.ext["untilMs"]) == side.clock.now_ms() + 3000
    side.pass_time(3)
    new = side.claim(peer, owner="new")
    answer = settle(side, peer, old.epoch, [side.item(0, deliver())])
    assert (answer.code, answer.ext["gantryCode"], answer.ext["heldBy"]) == (604, "FENCED", "new")
    assert side.outcomes() == []
    assert settle(side, peer, new.epoch, [side.item(0, deliver())]).code == 0
    assert side.outcomes() == [(b"later", 0)]


async def test_no_epoch_outlives_a_restart_of_the_store(peer):
    side = SettlingSide()
    side.delayed(peer)
    epoch = side.claim(peer).epoch
    queues = [(SCHEDULE_TOPIC, 0), (SCHEDULE_TOPIC, 1)]
    again = side.reopen()
    assert settle(again, peer, epoch, []).ext["gantryCode"] == "FENCED"
    granted = decode_json(again.claim_all(peer, queues).body, ClaimReplyBody).claims
    assert all(one.epoch > epoch for one in granted)


@pytest.mark.parametrize(
    ("owner", "ttl_ms", "queue_id", "topic"),
    [
        ("", 3000, 0, "t"),
        ("a", 1, 0, "t"),
        ("a", 10**6, 0, "t"),
        ("a", 3000, -1, "t"),
        ("a", 3000, 0, "a:b"),
        ("a", 3000, 0, ""),
    ],
)
async def test_an_impossible_claim_is_refused_with_a_reason(peer, owner, ttl_ms, queue_id, topic):
    side = SettlingSide()
    side.topics.ensure("t", 1)
    answer = side.claim_all(peer, [("t", 0), (topic, queue_id)], owner, ttl_ms)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert not side.settling.claims.all(0)


@pytest.mark.parametrize("count", [0, CLAIM_QUEUES_MAX + 1])
async def test_a_request_for_no_queue_or_too_many_is_refused_with_the_limit(peer, count):
    side = SettlingSide()
    side.topics.ensure("t", 1)
    answer = side.claim_all(peer, [("t", 0)] * count)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert f"1 to {CLAIM_QUEUES_MAX} queues, this one {count}" in answer.remark
    assert not side.settling.claims.all(0)
    assert side.claim_all(peer, [("t", 0)] * CLAIM_QUEUES_MAX).code == 0


async def test_a_claim_with_a_group_that_a_mark_cannot_hold_grants_nothing(peer):
    side = SettlingSide()
    side.topics.ensure("t", 1)
    body = msgspec.json.encode(ClaimBody([ClaimQueue("t", 0)]))
    side.ask(peer, GantryCode.CLAIM_QUEUES, ClaimHeader(owner="a", address="h:1", group="a:b"), body)
    assert peer.answers[-1].code == ResponseCode.INVALID_PARAMETER
    assert not side.settling.claims.all(0)


async def test_a_claim_on_several_queues_over_the_wire_answers_each_in_order(peer):
    side = SettlingSide()
    side.topics.ensure("t", 3)
    for body in (b"a", b"b"):
        side.delayed(peer, body)
    queues = [("t", 2), (SCHEDULE_TOPIC, 0), ("t", 0)]
    answer = decode_json(side.claim_all(peer, queues).body, ClaimReplyBody)
    assert [(one.cursor, one.max_offset) for one in answer.claims] == [(0, 0), (0, 2), (0, 0)]
    assert answer.store_time_ms == side.clock.now_ms()
    held = side.settling.claims.all(0)
    assert [one.epoch for one in answer.claims] == [held[queue].epoch for queue in queues]
    refused = side.claim_all(peer, [("t", 1), (SCHEDULE_TOPIC, 0)], "s2")
    assert (refused.ext["gantryCode"], refused.ext["heldBy"]) == ("HELD", "s1")
    assert int(refused.ext["untilMs"]) == side.clock.now_ms() + 3000
    assert ("t", 1) not in side.settling.claims.all(0)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"queues":[{"topic":"t"}]}', b'{"queues":[{"topic":1,"queueId":0}]}', b"[" * 5000]
)
async def test_a_malformed_list_of_queues_is_refused_with_a_reason(peer, body):
    side = SettlingSide()
    side.ask(peer, GantryCode.CLAIM_QUEUES, ClaimHeader(owner="a", address="h:1"), body)
    assert peer.answers[-1].code == ResponseCode.SYSTEM_ERROR
    assert "ClaimBody" in peer.answers[-1].remark


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"items":[{"offset":-1,"position":0}]}', b'{"items":1}', b"[" * 5000]
)
async def test_a_malformed_body_is_refused_with_a_reason(peer, body):
    side = SettlingSide()
    epoch = side.claim(peer).epoch
    side.ask(peer, GantryCode.SETTLE, SettleHeader(topic=SCHEDULE_TOPIC, queue_id=0, epoch=epoch), body)
    assert peer.answers[-1].code == ResponseCode.SYSTEM_ERROR
    assert "SettleBody" in peer.answers[-1].remark


@pytest.mark.parametrize(("topic", "queue_id"), [("nowhere", 0), (SCHEDULE_TOPIC, 4711)])
async def test_a_queue_that_does_not_exist_cannot_be_claimed(peer, topic, queue_id):
    side = SettlingSide()
    side.topics.ensure("t", 1)
    assert side.claim(peer, topic, queue_id).code == ResponseCode.TOPIC_NOT_EXIST
    assert side.claim_all(peer, [("t", 0), (topic, queue_id)]).code == ResponseCode.TOPIC_NOT_EXIST
    assert not side.settling.claims.all(0)
    assert side.state(peer, topic, queue_id).cursor == 0


@pytest.mark.parametrize(
    ("remote", "named", "shown", "any_host"),
    [
        ("10.0.0.7", "10.0.0.7:10921", "10.0.0.7:10921", False),
        ("10.0.0.7", "10.0.0.99:22", "10.0.0.7:22", False),
        ("10.0.0.7", "metadata.internal:80", "10.0.0.7:80", False),
        ("127.0.0.1", "mq.example:10921", "mq.example:10921", False),
        ("172.18.0.1", "172.18.0.9:10921", "172.18.0.9:10921", True),
    ],
)
async def test_gateways_are_sent_to_the_host_that_claimed_and_to_no_other_unless_the_store_is_set_so(
    remote, named, shown, any_host
):
    side = SettlingSide(claim_any_host=any_host)
    side.topics.ensure(SCHEDULE_TOPIC, 1)
    header = ClaimHeader(owner="a", address=named, ttl_ms=3000)
    body = msgspec.json.encode(ClaimBody([ClaimQueue(SCHEDULE_TOPIC, 0)]))
    peer = ScriptedPeer(remote)
    for _ in range(2):  # granted, then renewed
        side.ask(peer, GantryCode.CLAIM_QUEUES, header, body)
        assert peer.answers[-1].code == ResponseCode.SUCCESS
        side.ask(peer, GantryCode.CLAIM_HOLDER, ClaimHolderHeader(topic=SCHEDULE_TOPIC, queue_id=0))
        assert peer.answers[-1].read(ClaimHolderReplyHeader).address == shown
