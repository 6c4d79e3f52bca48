"""A bug in the middle of a batch: the log stops, every request is answered, and a restart continues."""

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.commit.message import Mode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


class Misplaced:
    """An entry with a bug: it fails after it has reserved its place."""

    mode, count, refused = Mode.SYNC, 1, None

    def place(self, at):
        at.log.reserve(100)
        raise ValueError("no such field")

    def refuse(self, refusal):
        self.refused = refusal


async def test_an_entry_that_fails_after_its_place_was_reserved_stops_the_log_and_every_request_is_answered(
    side, peer
):
    first, wrong = side.send(peer), Misplaced()
    side.appends.enqueue(wrong)
    last = side.send(peer)
    side.end_turn()
    codes = {answer.opaque: answer.ext["gantryCode"] for answer in peer.answers}
    assert codes == {first: "STORE_STOPPED", last: "STORE_STOPPED"}
    assert "no such field" in wrong.refused.remark
    assert side.appends.pending == 0
    assert side.records() == []
    again = SendingSide(files=side.files)
    again.send(peer)
    again.flush()
    assert [record.body for record in again.records()] == [b"hi"]
