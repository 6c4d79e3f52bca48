"""Filters that groups set for receives outlive the records that set them: retention appends them again first, so that the log alone has them."""

import asyncio
from dataclasses import replace

import pytest
from leasing_side import LeasingSide, bodies
from sending_side import START_S

from broker_store.commit.appends import disk_full
from broker_store.leases.note_bodies import ACKS_TOPIC, LeaseNote, decode_note
from broker_store.leases.note_writer import NoteWriter

pytestmark = pytest.mark.anyio
SEGMENT = {"segment_bytes": 64 * 1024}
RED = {"expression_type": "TAG", "expression": "red"}
BLUE = {"expression_type": "TAG", "expression": "blue", "change_filter": True}
DERIVED = ("queues.json", "queues.json.bak", "leases.snapshot")


async def filtered() -> LeasingSide:
    """A store with a filter in its first segment, more segments, and a checkpoint."""
    side = LeasingSide(**SEGMENT)
    side.put("red", TAGS="red")
    side.ack(*side.lease(**RED))
    for number in range(30):
        side.put("x" * 8000, KEYS=str(number))
    await side.finish(side.sending.checkpoints.take())
    return side


async def delete_expired(side: LeasingSide) -> int:
    """Do what retention does, with everything that it appends again first."""
    side.rolls[:] = [side.consuming.keeper.roll, roll_configuration(side), side.leasing.roll]
    care = side.foundation.care
    care.retention.value = replace(care.retention.value, keep_ms=1)
    side.pass_time(3600)
    side.files.now_ms = int(side.wall_s * 1000)
    return await side.finish(care.delete_expired())


def roll_configuration(side: LeasingSide):
    async def roll(below: int) -> None:
        await side.sending.config_log.roll(below)

    return roll


def notes(side: LeasingSide) -> list[LeaseNote]:
    return [decode_note(record.body) for record in side.records(ACKS_TOPIC)]


def filter_of(side: LeasingSide) -> str:
    return side.store.states.leases.find("g", "orders").filter.expression


def bare(side: LeasingSide, *names: str) -> LeasingSide:
    """Open the killed store without these files: they were lost or damaged."""
    disk = side.files.killed()
    for name in names:
        disk.remove(f"/store/gantry/{name}")
    return LeasingSide(disk, START_S + 7200, **SEGMENT)


async def test_a_filter_outlives_the_segment_of_its_record_without_any_snapshot():
    side = await filtered()
    assert await delete_expired(side) > 0
    assert side.log.min_position > 0
    assert filter_of(side) == "red"
    again = bare(side, *DERIVED)
    assert again.opening.is_rebuild
    assert filter_of(again) == "red"
    again.put("other", TAGS="other")
    again.put("red again", TAGS="red")
    assert bodies(again.lease()) == ["red again"]


async def test_a_filter_whose_record_is_newer_is_not_appended_again():
    side = await filtered()
    side.lease(**BLUE)
    count = len(notes(side))
    await side.finish(side.leasing.roll(side.log.segments[0].end))
    assert len(notes(side)) == count
    assert await delete_expired(side) > 0
    assert filter_of(bare(side, *DERIVED)) == "blue"


async def test_a_filter_that_is_being_changed_is_the_later_record():
    side = await filtered()
    assert side.lease_raw(**BLUE) is None
    await side.leasing.roll(1 << 40)
    side.flush()
    assert filter_of(side) == "blue"
    assert filter_of(bare(side, *DERIVED)) == "blue"
    assert [note.filter.expression for note in notes(side) if note.filter][-1] == "blue"


async def test_a_change_beside_the_record_of_the_old_filter_is_the_later_record():
    side = await filtered()
    rolling = asyncio.ensure_future(side.leasing.roll(1 << 40))
    await asyncio.sleep(0)
    assert side.lease_raw(**BLUE) is None
    await side.finish(rolling)
    assert filter_of(side) == "blue"
    assert filter_of(bare(side, *DERIVED)) == "blue"


async def test_a_group_that_is_deleted_meanwhile_gets_no_filter_back():
    side = await filtered()
    rolling = asyncio.ensure_future(side.leasing.roll(1 << 40))
    await asyncio.sleep(0)
    side.ask(side.client, 207, {"groupName": "g", "cleanOffset": "true"})
    await side.finish(rolling)
    for store in (side, bare(side), bare(side, *DERIVED)):
        assert store.store.states.leases.find("g", "orders") is None


async def test_what_cannot_be_appended_keeps_its_segment(monkeypatch):
    side = await filtered()
    pin = side.store.states.leases.pin()
    assert pin is not None

    def refuse(*_arguments):
        raise disk_full()

    with monkeypatch.context() as full:
        full.setattr(NoteWriter, "write", refuse)
        assert await delete_expired(side) == 0
    assert side.store.states.leases.pin() == pin
    assert await delete_expired(side) > 0


async def test_a_filter_of_an_earlier_version_gets_its_record_when_the_store_begins():
    """Its snapshot does not say where the record is, and retention has deleted it."""
    side = await filtered()
    for subscription in side.store.states.leases.all():
        subscription.filter_at = -1
    side.put("more")
    await side.finish(side.sending.checkpoints.take())
    again = bare(side)
    assert again.store.states.leases.pin() == 0
    before = len(notes(again))
    await again.finish(again.leasing.loops()["filters"]())
    assert len(notes(again)) == before + 1
    assert again.store.states.leases.pin() > 0
    await again.finish(again.leasing.loops()["filters"]())
    assert len(notes(again)) == before + 1


async def test_a_record_that_a_power_cut_took_does_not_count():
    """The snapshot may be ahead of a log that is not flushed: the filter is appended again before its only record goes."""
    side = await filtered()
    leases = side.store.states.leases
    data = b"".join(leases.slices(side.log.visible_end))
    at = leases.find("g", "orders").filter_at
    assert at >= 0
    assert leases.load(data, at)
    assert leases.pin() == 0
    assert leases.load(data, side.log.visible_end)
    assert leases.pin() == at
