"""The table of committed offsets: what it knows, and what of it is still to be saved."""

from broker_store.groups.offset_rows import Piece, Row, pieces_of
from broker_store.groups.offsets import OffsetTable


def taken(table):
    """Take everything that is to be saved."""
    return [table.take(piece) for piece in pieces_of(table.unsaved())]


def test_negative_commits_are_ignored_and_steps_back_are_counted():
    table = OffsetTable()
    table.commit("g", "t", 0, -1)
    assert table.find("g", "t", 0) is None
    table.commit("g", "t", 0, 9)
    table.commit("g", "t", 0, 4)
    assert (table.find("g", "t", 0), table.went_back) == (4, 1)


def test_only_what_moved_is_saved_and_only_once():
    table = OffsetTable()
    table.commit("g", "t", 1, 5)
    table.commit("g", "t", 0, 3)
    assert taken(table) == [Row("t", "g", {0: 3, 1: 5})]
    table.commit("g", "t", 0, 3)
    assert taken(table) == []


def test_an_offset_that_was_not_saved_is_saved_with_its_newest_value():
    table = OffsetTable()
    table.commit("g", "t", 0, 3)
    (row,) = taken(table)
    table.commit("g", "t", 0, 4)
    table.not_saved(row)
    assert taken(table) == [Row("t", "g", {0: 4})]


def test_a_removed_topic_or_group_leaves_nothing_behind():
    table = OffsetTable()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        table.commit(group, topic, 0, 1)
        table.pulled(group, topic, 0, 2)
    taken(table)
    table.remove_topic("t")
    assert table.topics_of("g") == ["u"]
    table.remove_group("g")
    assert list(table.all()) == []
    assert table.find_pulled("g", "u", 0) is None
    assert taken(table) == [Row("t", "g", {0: None}), Row("t", "h", {0: None}), Row("u", "g", {0: None})]


def test_a_group_that_commits_again_after_its_removal_is_not_forgotten():
    table = OffsetTable()
    table.commit("g", "t", 0, 5)
    table.remove_group("g")
    table.commit("g", "t", 0, 1)
    assert taken(table) == [Row("t", "g", {0: 1})]


def test_taking_a_piece_leaves_the_rest_unsaved():
    table = OffsetTable()
    for queue_id in range(3):
        table.commit("g", "t", queue_id, 7)
    assert table.take(Piece("t", "g", (1,))) == Row("t", "g", {1: 7})
    assert table.unsaved() == {("t", "g"): (0, 2)}
    assert table.still_unsaved(Piece("t", "g", (1, 2, 5))).queue_ids == (2,)


def test_offsets_of_an_opening_replace_older_ones_that_a_pull_has_left_meanwhile():
    table = OffsetTable()
    table.advance("g", "t", 0, 3)
    table.advance("g", "t", 1, 9)
    table.replace({("t", "g"): {0: 5, 1: 5, 2: 5}})
    assert dict(table.of("g", "t")) == {0: 5, 1: 9, 2: 5}
    assert taken(table) == [Row("t", "g", {1: 9})]
