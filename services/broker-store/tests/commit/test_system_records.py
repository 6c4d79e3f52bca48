import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sending_side import HOST, ScriptedPeer, SendingSide

from broker_store.commit.system_records import Preambles, SegmentOffsets, _bodies, read_system_record
from broker_store.opening import store_parts
from gantry_wire.messages.properties import TAGS, format_properties
from gantry_wire.records.message_record import build_record


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=20),
        st.dictionaries(st.integers(0, 70_000), st.integers(0, 1 << 62), max_size=8),
        max_size=12,
    ),
    st.integers(300, 2000),
)
def test_a_table_is_cut_into_bodies_below_the_limit_and_nothing_is_lost(table, bytes_max):
    import msgspec

    bodies = _bodies(7, table, bytes_max)
    assert all(len(body) <= bytes_max for body in bodies)
    merged: dict = {}
    for number, body in enumerate(bodies):
        part = msgspec.json.decode(body, type=SegmentOffsets)
        assert (part.position, part.part, part.parts) == (7, number, len(bodies))
        for topic, of_topic in part.next_offsets.items():
            merged.setdefault(topic, {}).update(of_topic)
    assert merged == {topic: of_topic for topic, of_topic in table.items() if of_topic}


@pytest.mark.anyio
async def test_a_preamble_in_several_records_lies_back_to_back_with_offsets_of_its_own(monkeypatch):
    monkeypatch.setattr(store_parts, "Preambles", partial(Preambles, parts_bytes_max=4096))
    side = SendingSide(segment_bytes=1024 * 1024)
    peer = ScriptedPeer()
    side.topics.ensure("wide", 1000)
    for queue_id in range(1000):
        side.send(peer, "wide", queue_id=queue_id)
    side.flush()
    for _ in range(5):
        side.send(peer, body=b"x" * 250_000)
    side.flush()
    second = side.log.segments[1].start
    own = [record for record in side.records("GANTRY_SYS_SEGMENT") if record.position >= second]
    assert len(own) > 1
    assert [record.queue_offset for record in own] == list(range(1, 1 + len(own)))
    assert own[0].position == second
    assert all(left.position + left.size == right.position for left, right in itertools.pairwise(own))


def test_a_record_of_an_unknown_tag_is_ignored():
    properties = format_properties({TAGS: "later"})
    record = build_record(b"GANTRY_SYS_SEGMENT", 0, 0, 0, b"{}", properties, 0, 0, 1, HOST, 1, HOST)
    assert read_system_record(record) is None
