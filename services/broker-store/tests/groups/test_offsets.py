"""The table of committed offsets, and its file in RocketMQ's format."""

from hypothesis import given
from hypothesis import strategies as st

from broker_store.groups.offsets import Moved, OffsetTable
from gantry_wire.bodies import fastjson

NAMES = st.text(alphabet="abz%_-", min_size=1, max_size=6)
VERSION = b'{"counter":1,"stateVersion":0,"timestamp":5}'


def test_the_file_has_rocketmqs_format():
    table = OffsetTable()
    table.commit("g", "TopicTest", 0, 12)
    table.commit("g", "TopicTest", 1, 9)
    text = table.encode(VERSION, 4)
    assert b'"TopicTest@g":{0:12,1:9}' in text
    assert fastjson.loads(text) == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 5},
        "gantryJournal": 4,
        "offsetTable": {"TopicTest@g": {"0": 12, "1": 9}},
    }


def test_an_empty_table_is_valid_too():
    assert fastjson.loads(OffsetTable().encode(VERSION)) is not None


@given(st.dictionaries(st.tuples(NAMES, NAMES, st.integers(0, 9)), st.integers(0, 2**62)))
def test_encoded_content_is_loaded_again(offsets):
    table, copy = OffsetTable(), OffsetTable()
    for (topic, group, queue_id), offset in offsets.items():
        table.commit(group, topic, queue_id, offset)
    assert copy.load(fastjson.loads(table.encode(VERSION, 7))) == 7
    assert sorted(copy.all()) == sorted(table.all())


def test_an_invalid_offset_is_skipped():
    table = OffsetTable()
    content = {"offsetTable": {"t@g": {"0": 1, "x": 2, "3": "4", "5": None}, "nogroup": {"0": 1}, "t@h": []}}
    assert table.load(content) == 0
    assert dict(table.of("g", "t")) == {0: 1, 3: 4}
    assert table.groups_of("t") == ["g", "h"]
    assert table.load("no table") == 0


def test_negative_commits_are_ignored_and_steps_back_are_counted():
    table = OffsetTable()
    table.commit("g", "t", 0, -1)
    assert table.find("g", "t", 0) is None
    table.commit("g", "t", 0, 9)
    table.commit("g", "t", 0, 4)
    assert (table.find("g", "t", 0), table.went_back) == (4, 1)


def test_only_what_moved_is_reported_and_only_once():
    table = OffsetTable()
    table.commit("g", "t", 1, 5)
    table.commit("g", "t", 0, 3)
    assert table.take_moved() == [Moved("t", "g", {0: 3, 1: 5})]
    table.commit("g", "t", 0, 3)
    assert table.take_moved() == []


def test_a_removed_topic_or_group_leaves_nothing_behind():
    table = OffsetTable()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        table.commit(group, topic, 0, 1)
        table.pulled(group, topic, 0, 2)
    changes = table.changes
    table.remove_topic("t")
    assert table.topics_of("g") == ["u"]
    table.remove_group("g")
    assert (list(table.all()), table.take_moved()) == ([], [])
    assert table.find_pulled("g", "u", 0) is None
    assert table.changes > changes
