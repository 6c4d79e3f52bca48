"""Reads of committed offsets wait until the leader has its lease; other reads do not."""

import asyncio

import pytest
from sending_side import ScriptedPeer

from broker_store.process.group import newest_reads
from broker_store.process.group.newest_reads import NEWEST, with_newest_reads
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.frames.encode import encode_response

pytestmark = pytest.mark.anyio
PULL = int(RequestCode.PULL_MESSAGE)
QUERY = int(RequestCode.QUERY_CONSUMER_OFFSET)


class Leader:
    def __init__(self):
        self.has_lease, self.offset, self.peer = True, 5, ScriptedPeer()
        every = {int(code): ("pull", self.handle) for code in {*NEWEST, PULL}}
        self.commands = with_newest_reads(every, lambda: self.has_lease)

    def handle(self, _peer, command):
        if self.offset < 0:
            raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, "none", {"why": "new"})
        return encode_response(0, command.opaque, {"offset": str(self.offset)})

    def ask(self, code, opaque=1, flag=0):
        return self.commands[code][1](self.peer, Command(code=code, opaque=opaque, flag=flag))

    async def answered(self, count=1):
        async with asyncio.timeout(30):
            while len(self.peer.answers) < count:
                await asyncio.sleep(0.005)
        return self.peer.answers[-1]


@pytest.fixture
async def leader():
    return Leader()


async def test_with_its_lease_a_leader_answers_at_once(leader):
    for code in leader.commands:
        assert leader.ask(code)


async def test_without_its_lease_it_serves_pulls(leader):
    leader.has_lease = False
    assert leader.ask(PULL)


@pytest.mark.parametrize("code", sorted(NEWEST))
async def test_a_read_of_offsets_waits_for_the_lease_and_has_what_is_known_then(leader, code):
    leader.has_lease = False
    assert leader.ask(int(code), opaque=7) is None
    await asyncio.sleep(3 * newest_reads.LOOK_SECONDS)
    assert leader.peer.answers == []
    leader.has_lease, leader.offset = True, 9
    answer = await leader.answered()
    assert (answer.code, answer.opaque, answer.ext["offset"]) == (0, 7, "9")


async def test_a_read_that_waited_is_refused_as_one_that_did_not(leader):
    leader.has_lease, leader.offset = False, -1
    leader.ask(QUERY, opaque=3)
    leader.has_lease = True
    answer = await leader.answered()
    assert (answer.code, answer.opaque, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, 3, "none")
    assert answer.ext["why"] == "new"


async def test_without_a_lease_in_time_the_read_is_refused_as_retryable(leader, monkeypatch):
    monkeypatch.setattr(newest_reads, "NEWEST_SECONDS", 0.1)
    leader.has_lease = False
    leader.ask(QUERY)
    answer = await leader.answered()
    assert (answer.code, answer.ext["gantryCode"]) == (ResponseCode.SYSTEM_BUSY, "NO_LEASE")


async def test_reads_beyond_a_bound_are_refused_at_once_and_leave_room_when_they_end(leader, monkeypatch):
    monkeypatch.setattr(newest_reads, "READS_MAX", 2)
    leader.has_lease = False
    for _ in range(2):
        assert leader.ask(QUERY) is None
    with pytest.raises(RefusedRequest, match="nothing is granted"):
        leader.ask(QUERY)
    leader.has_lease = True
    await leader.answered(2)
    leader.has_lease = False
    assert leader.ask(QUERY) is None


async def test_a_one_way_read_gets_no_answer(leader):
    leader.has_lease = False
    leader.ask(QUERY, flag=FLAG_ONEWAY)
    leader.ask(QUERY, opaque=2)
    leader.has_lease = True
    assert (await leader.answered()).opaque == 2
    await asyncio.sleep(3 * newest_reads.LOOK_SECONDS)
    assert len(leader.peer.answers) == 1
