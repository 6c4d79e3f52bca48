"""Where a new group begins: the start of its first receive, decided once and logged before the answer."""

import pytest
from leasing_side import LeasingSide, bodies, given
from sending_side import ScriptedPeer

from broker_store.groups import first_offset
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


@pytest.fixture
def first_message_is_on_disk(monkeypatch):
    """Let no queue have its first message in memory, as on a store with a long log."""
    monkeypatch.setattr(first_offset, "is_whole_in_memory", lambda queue, _log: queue.max_offset == 0)


async def test_a_group_begins_with_the_last_message(side, first_message_is_on_disk):
    side.put("old", "last")
    assert bodies(side.lease(start="latest")) == ["last"]
    assert side.committed() == 1


async def test_a_group_begins_with_the_first_message_where_that_is_in_memory(side):
    side.put("old", "last")
    assert bodies(side.lease(start="latest")) == ["old", "last"]


async def test_a_start_precedes_its_answer_in_the_log(side, first_message_is_on_disk):
    side.put("old", "last")
    assert side.lease_raw(start="latest") is None
    side.flush()
    side.put("new")
    again = side.reopen()
    assert bodies(again.lease(start="latest")) == ["last", "new"]


async def test_a_queue_used_after_the_first_receive_is_read_from_its_first_message(
    side, first_message_is_on_disk
):
    side.put("old", "last")
    side.lease(start="latest")
    side.put("first", "second", queue_id=1)
    assert bodies(side.lease(start="latest")) == ["first", "second"]
    again = side.reopen()
    assert sorted(bodies(again.lease(start="latest"))) == ["first", "last", "second"]


async def test_a_configured_start_at_the_end_skips_nothing_in_a_queue_used_later(side):
    side.set_group(attributes={"gantry.receive.start": "latest"})
    side.put("old")
    assert side.lease() == []
    side.put("first", queue_id=1)
    assert bodies(side.lease()) == ["first"]


async def test_receives_that_meet_while_the_start_is_logged_begin_at_one_place(
    side, first_message_is_on_disk
):
    side.put("old", "last")
    opaques = []
    for body in ("new", "newer"):
        assert side.lease_raw(start="latest", max_messages=1) is None
        opaques.append(side._opaque)
        side.send(ScriptedPeer(), "orders", body.encode(), 0, properties={"UNIQ_KEY": f"U{body}"})
    side.flush()
    found = [bodies(given(side.answer_to(opaque))) for opaque in opaques]
    assert found == [["last"], ["new"]]
    assert bodies(side.lease(start="latest")) == ["newer"]


async def test_a_start_has_no_effect_on_a_group_with_an_offset_or_a_configured_start(
    side, first_message_is_on_disk
):
    side.put("a", "b", "c")
    assert bodies(side.lease(max_messages=1)) == ["a"]
    assert bodies(side.lease(start="latest")) == ["b", "c"]
    side.set_group("h", attributes={"gantry.receive.start": "earliest"})
    assert bodies(side.lease(group="h", start="latest")) == ["a", "b", "c"]
    side.consuming.offsets.commit("i", "orders", 0, 1)
    assert bodies(side.lease(group="i", start="latest")) == ["b", "c"]


async def test_an_unknown_start_is_refused(side):
    side.put("a")
    assert side.lease_raw(start="middle").code == ResponseCode.INVALID_PARAMETER
