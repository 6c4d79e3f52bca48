"""Actions: RocketMQ's names, and nothing that is skipped in silence."""

import pytest

from gantry_access.errors import AnyAction, UnknownAction
from gantry_access.model.actions import Action


@pytest.mark.parametrize("name", ["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"])
def test_each_name_is_read_in_any_case_and_written_as_rocketmq_writes_it(name):
    for text in (name, name.lower(), name.upper()):
        assert Action.parse(text).names == [name]


def test_any_is_refused():
    with pytest.raises(AnyAction, match="All means every action"):
        Action.parse("any")


@pytest.mark.parametrize("text", ["", "Pubb", " Pub", "Pub|Sub", "none", "name"])
def test_an_unknown_action_is_an_error_that_names_the_known_ones(text):
    with pytest.raises(UnknownAction, match="known are All, Pub, Sub, Create, Update, Delete, Get, List"):
        Action.parse_all(["Pub", text])


def test_a_set_of_actions_has_one_order():
    assert Action.parse_all(["Get", "Pub", "Get"]).names == ["Pub", "Get"]
    assert Action.parse_all([]).names == []


def test_all_permits_every_action_and_others_only_themselves():
    assert all(Action.ALL.permitted & action for action in Action)
    assert Action.PUB.permitted == int(Action.PUB)
    assert not Action.PUB.permitted & Action.ALL
