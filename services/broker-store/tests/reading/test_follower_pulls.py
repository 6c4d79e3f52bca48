"""Pulls from a replica that follows: what it has, RocketMQ's answers of a slave for what it has not, and no offset is committed."""

from dataclasses import replace

import pytest
from memory_store import bodies_of
from reading_side import COMMIT, WITH_SUBSCRIPTION, ReadingSide, pull_fields, pull_held

from gantry_wire.headers.messages import PullReplyHeader

pytestmark = pytest.mark.anyio
FOUND, RETRY, MOVED, NOTHING = 0, 20, 21, 19


class Leader:
    """The leader of the follower."""

    lives = False

    def __call__(self):
        return self.lives


@pytest.fixture
def leader():
    return Leader()


@pytest.fixture
async def side(tmp_path, leader):
    side = ReadingSide(tmp_path, leader=leader)
    for body in (b"m0", b"m1"):
        side.put(body)
    yield side
    await side.consuming.stop()


@pytest.mark.parametrize("lives", [False, True])
async def test_what_it_has_is_answered(side, leader, lives):
    leader.lives = lives
    reply = await side.ask(11, pull_fields(1))
    header = reply.read(PullReplyHeader)
    assert (reply.code, bodies_of(reply.body)) == (FOUND, [b"m1"])
    assert (header.next_begin_offset, header.max_offset, header.suggest_which_broker_id) == (2, 2, 0)


@pytest.mark.parametrize(
    ("offset", "topic", "alone"),
    [(2, "orders", NOTHING), (7, "orders", RETRY), (0, "empty", NOTHING), (5, "empty", RETRY)],
)
@pytest.mark.parametrize("lives", [False, True])
async def test_what_it_has_not_is_left_to_the_leader_and_no_offset_is_corrected(
    side, leader, offset, topic, alone, lives
):
    side.store.topics.ensure("empty", 1, 6)
    leader.lives = lives
    reply = await side.ask(11, pull_fields(offset, topic=topic))
    header = reply.read(PullReplyHeader)
    assert reply.code == (RETRY if lives else alone)
    assert (header.next_begin_offset, header.suggest_which_broker_id) == (offset, 0)


async def test_an_offset_below_the_first_one_is_not_corrected(side):
    side.store.find("orders", 0).min_offset = 1
    reply = await side.ask(11, pull_fields(0))
    header = reply.read(PullReplyHeader)
    assert (reply.code, reply.remark) == (RETRY, "OFFSET_TOO_SMALL")
    assert (header.next_begin_offset, header.min_offset) == (0, 1)


async def test_a_pull_commits_nothing(side):
    fields = pull_fields(0, sysFlag=COMMIT | WITH_SUBSCRIPTION, commitOffset=1)
    assert (await side.ask(11, fields)).code == FOUND
    assert side.consuming.offsets.find("readers", "orders", 0) is None
    assert side.consuming.offsets.unsaved() == {}


async def test_a_held_pull_is_answered_by_what_is_replayed(side):
    side.send(11, pull_held(2))
    assert side.consuming.pulls.held_count == 1
    side.store.put(b"m2")
    side.consuming.pulls.replayed()
    reply = await side.answered()
    assert (reply.code, bodies_of(reply.body)) == (FOUND, [b"m2"])


@pytest.mark.parametrize(
    "fields", [{"subscription": "wanted"}, {"subscription": "TAGS = 'wanted'", "expressionType": "SQL92"}]
)
async def test_a_held_pull_waits_for_what_its_filter_wants(side, fields):
    side.send(11, pull_held(2, **fields))
    side.store.put(b"other", tags="other")
    side.consuming.pulls.replayed()
    assert side.consuming.pulls.held_count == 1
    side.store.put(b"meant", tags="wanted")
    side.consuming.pulls.replayed()
    reply = await side.answered()
    assert (reply.code, bodies_of(reply.body)) == (FOUND, [b"meant"])


@pytest.mark.parametrize("offset", [2, 9])
async def test_held_pulls_are_sent_to_a_leader_that_lives_again(side, leader, offset):
    side.send(11, pull_held(offset))
    side.consuming.pulls.look_for_leader()
    assert side.consuming.pulls.held_count == 1
    leader.lives = True
    side.consuming.pulls.look_for_leader()
    reply = await side.answered()
    header = reply.read(PullReplyHeader)
    assert (reply.code, header.next_begin_offset, header.suggest_which_broker_id) == (RETRY, offset, 0)


async def test_a_client_that_knows_no_leader_does_not_ask_in_a_loop(side, leader):
    leader.lives = True
    side.send(11, pull_held(2))
    assert side.consuming.pulls.held_count == 1
    assert (await side.answered()).code == RETRY


async def test_far_behind_the_end_a_follower_keeps_its_readers_where_slaves_may_be_read(side, leader):
    leader.lives, side.slaves = True, [2]
    side.settings.slave_read_enable = True
    assert (await side.ask(11, pull_fields())).read(PullReplyHeader).suggest_which_broker_id == 0
    side.settings.limits = replace(side.settings.limits, memory_bytes=1)
    assert (await side.ask(11, pull_fields())).read(PullReplyHeader).suggest_which_broker_id == 2
