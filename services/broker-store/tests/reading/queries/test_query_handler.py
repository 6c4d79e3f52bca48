"""Requests 12, 33 and 29 to 32: keys, positions, times, bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import bodies_of
from reading_side import ReadingSide

from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import OffsetReplyHeader, QueryMessageReplyHeader, TimestampReplyHeader
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

pytestmark = pytest.mark.anyio
FOR_EVER = {"beginTimestamp": "0", "endTimestamp": str(2**62), "maxNum": "64"}


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def by_key(key, topic="orders", **changes):
    return {"topic": topic, "key": key, **FOR_EVER, **{name: str(value) for name, value in changes.items()}}


async def test_messages_are_found_by_each_of_their_keys(side):
    side.put(b"one", keys="k1 k2", uniq="U1")
    side.put(b"two", keys="k2", uniq="U2", queue_id=1)
    reply = await side.ask(12, by_key("k2"))
    assert bodies_of(reply.body) == [b"one", b"two"]
    header = reply.read(QueryMessageReplyHeader)
    assert (header.index_last_update_timestamp, header.index_last_update_phyoffset) == (
        1_000,
        side.store.index.end_position,
    )
    assert bodies_of((await side.ask(12, by_key("k1"))).body) == [b"one"]


async def test_a_unique_key_is_not_confused_with_a_key(side):
    side.put(b"by key", keys="U1", uniq="U0")
    side.put(b"by unique key", uniq="U1")
    fields = {**by_key("U1"), "_UNIQUE_KEY_QUERY": "true"}
    assert bodies_of((await side.ask(12, fields)).body) == [b"by unique key"]
    assert len(bodies_of((await side.ask(12, by_key("U1"))).body)) == 2


async def test_another_key_of_the_same_hash_is_left_out(side):
    side.put(b"other", keys="x")
    side.store.index.entries.append((index_key_hash("orders", "wanted"), 0, 1_000))
    reply = await side.ask(12, by_key("wanted"))
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    assert reply.remark == "can not find message, maybe time range not correct"


async def test_number_and_time_bound_a_query(side):
    for number in range(10):
        side.put(b"m%d" % number, keys="k", store_ms=1_000 + number)
    newest = [b"m7", b"m8", b"m9"]
    assert bodies_of((await side.ask(12, by_key("k", maxNum=3))).body) == newest
    assert bodies_of((await side.ask(12, by_key("k", beginTimestamp=1_004, endTimestamp=1_005))).body) == [
        b"m4",
        b"m5",
    ]


async def test_a_damaged_or_unreadable_record_is_not_answered(side):
    side.put(b"damaged", keys="k")
    side.put(b"hidden", keys="k", queue_id=1)
    side.store.log.damaged = {10}
    del side.store.find("orders", 1).units[-CONSUME_QUEUE_UNIT.size :]
    assert (await side.ask(12, by_key("k"))).code == ResponseCode.QUERY_NOT_FOUND


async def test_an_index_that_is_being_built_or_switched_off_reports_it(side):
    side.index_trouble = "the index is being built: 40 % done"
    reply = await side.ask(12, by_key("k"))
    assert (reply.code, reply.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, side.index_trouble)


async def test_a_message_is_viewed_by_its_position(side):
    side.put(b"first")
    position = side.store.log.end
    side.put(b"second")
    assert bodies_of((await side.ask(33, {"offset": str(position)})).body) == [b"second"]


async def test_a_view_during_a_rebuild_shows_what_is_rebuilt_and_asks_to_try_again_for_the_rest(side):
    side.put(b"first")
    side.index_trouble = "the index is being rebuilt"
    assert bodies_of((await side.ask(33, {"offset": "0"})).body) == [b"first"]
    del side.store.find("orders", 0).units[:]
    for position in (0, 10_000):
        reply = await side.ask(33, {"offset": str(position)})
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (
            reply.remark
            == f"the index is being rebuilt, and has not reached {position}; try again in a moment"
        )


@pytest.mark.parametrize("position", [-1, 3, 10_000])
async def test_no_message_begins_at_any_other_position(side, position):
    side.put(b"first")
    reply = await side.ask(33, {"offset": str(position)})
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"can not find message by the offset, {position}",
    )


async def test_internal_messages_are_not_viewed(side):
    side.put(b"sample", topic="GANTRY_SYS_OFFSETS")
    assert (await side.ask(33, {"offset": "0"})).code == ResponseCode.SYSTEM_ERROR


async def offset_at(side, time_ms, boundary=None):
    fields = {"topic": "orders", "queueId": "0", "timestamp": str(time_ms)}
    if boundary:
        fields["boundaryType"] = boundary
    return (await side.ask(29, fields)).read(OffsetReplyHeader).offset


async def test_lower_is_the_first_at_or_after_and_upper_the_last_at_or_before(side):
    for time_ms in (100, 200, 200, 300):
        side.put(b"m", store_ms=time_ms)
    assert [await offset_at(side, time_ms) for time_ms in (50, 100, 150, 200, 250, 300, 301)] == [
        0,
        0,
        1,
        1,
        3,
        3,
        4,
    ]
    upper = [await offset_at(side, time_ms, "upper") for time_ms in (50, 100, 150, 200, 250, 300, 301)]
    assert upper == [0, 0, 0, 2, 2, 3, 3]


async def test_a_queue_without_messages_answers_zeros(side):
    fields = {"topic": "orders", "queueId": "2"}
    assert await offset_at(side, 5) == 0
    for code in (30, 31):
        assert (await side.ask(code, fields)).read(OffsetReplyHeader).offset == 0
    assert (await side.ask(32, fields)).read(TimestampReplyHeader).timestamp == -1


async def test_bounds_and_the_oldest_time_of_a_queue(side):
    for time_ms in (100, 200, 300):
        side.put(b"m", store_ms=time_ms)
    queue = side.store.find("orders", 0)
    queue.min_offset = 1
    fields = {"topic": "orders", "queueId": "0"}
    assert (await side.ask(30, fields)).read(OffsetReplyHeader).offset == 3
    assert (await side.ask(31, fields)).read(OffsetReplyHeader).offset == 1
    assert (await side.ask(32, fields)).read(TimestampReplyHeader).timestamp == 200


async def test_holes_have_no_time_and_stop_no_search(side):
    side.put(b"m", store_ms=100)
    side.store.find("orders", 0).put_hole()
    side.store.find("orders", 0).put_hole()
    side.put(b"m", store_ms=300)
    side.store.find("orders", 0).put_hole()
    # A hole counts as what follows it: a pull from there continues at the next message.
    assert [await offset_at(side, time_ms) for time_ms in (100, 200, 300, 301)] == [0, 1, 1, 4]


async def test_a_search_says_when_the_disk_does_not_read_what_decides_it(side, monkeypatch):
    for time_ms in (100, 200, 300):
        side.put(b"m", store_ms=time_ms)
    right = side.store.log.read_unchecked

    def fail(_position, _size):
        raise OSError(5, "Input/output error")

    fields = {"topic": "orders", "queueId": "0", "timestamp": "150"}
    monkeypatch.setattr(side.store.log, "read_unchecked", fail)
    reply = await side.ask(29, fields)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "the disk did not read the message at offset 1, try again: Input/output error"
    monkeypatch.setattr(side.store.log, "read_unchecked", right)
    assert await offset_at(side, 150) == 1


@pytest.mark.parametrize(("removed", "lower", "upper"), [(3, 4, 3), (6, 6, 0)])
async def test_messages_removed_during_a_search_do_not_mislead_it(side, monkeypatch, removed, lower, upper):
    for time_ms in range(100, 900, 100):
        side.put(b"m", store_ms=time_ms)
    queue, right = side.store.find("orders", 0), side.store.log.read_unchecked

    def read_and_remove(position, size):
        queue.min_offset = removed
        return right(position, size)

    monkeypatch.setattr(side.store.log, "read_unchecked", read_and_remove)
    assert await offset_at(side, 450) == lower
    queue.min_offset = 0
    assert await offset_at(side, 450, "upper") == upper


async def test_the_time_of_the_oldest_message_is_not_that_of_one_removed_during_the_query(side, monkeypatch):
    side.put(b"m", store_ms=100)
    position = side.store.log.end
    side.put(b"m", store_ms=200)
    right = side.store.log.read_unchecked

    def remove_and_read(at, size):
        side.store.log.min_position = position
        return right(at, size)

    monkeypatch.setattr(side.store.log, "read_unchecked", remove_and_read)
    reply = await side.ask(32, {"topic": "orders", "queueId": "0"})
    assert reply.read(TimestampReplyHeader).timestamp == 200


@settings(max_examples=40, deadline=None)
@given(times=st.lists(st.integers(1, 50), min_size=1, max_size=40), time_ms=st.integers(0, 52))
async def test_search_agrees_with_a_walk_over_the_queue(tmp_path_factory, times, time_ms):
    side = ReadingSide(tmp_path_factory.mktemp("search"))
    for each in sorted(times):
        side.put(b"m", store_ms=each)
    expected = sum(each < time_ms for each in times)
    assert await offset_at(side, time_ms) == expected
    assert await offset_at(side, time_ms, "UPPER") == max(sum(each <= time_ms for each in times) - 1, 0)
    await side.consuming.stop()
