"""A scope covers a request only if it covers each of its needs."""

import pytest

from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open
from gantry_access.model.resources import Resource
from gantry_access.tokens.scope import ScopeEntry, is_in_scope

TOPIC, GROUP = "Topic", "Group"
PUB, SUB, GET, ALL = Action.PUB, Action.SUB, Action.GET, Action.ALL


def resource(kind, name):
    return Resource.parse(f"{kind}:{name}" if kind else name)


def union(actions):
    return Action.parse_all(action.name for action in actions)


def entry(kind, name, *actions):
    return ScopeEntry(resource(kind, name), union(actions))


def need(kind, name, *actions):
    return Need(resource(kind, name), union(actions))


@pytest.mark.parametrize(
    ("one", "wanted", "covers"),
    [
        (entry(TOPIC, "orders", SUB), need(TOPIC, "orders", SUB, GET), True),
        (entry(TOPIC, "orders", PUB), need(TOPIC, "orders", SUB, GET), False),
        (entry(TOPIC, "orders", ALL), need(TOPIC, "orders", PUB), True),
        (entry(TOPIC, "orders", ALL), need(TOPIC, "orders2", PUB), False),
        (entry(TOPIC, "orders*", ALL), need(TOPIC, "orders2", PUB), True),
        (entry(TOPIC, "orders*", ALL), need(TOPIC, "order", PUB), False),
        (entry(TOPIC, "*", PUB), need(TOPIC, "x", PUB), True),
        (entry(TOPIC, "orders*", PUB), need(TOPIC, "*", PUB), False),
        (entry(TOPIC, "*", PUB), need(TOPIC, "*", PUB), True),
        (entry(TOPIC, "*", ALL), need(GROUP, "x", SUB), False),
        (entry(None, "*", ALL), need(GROUP, "x", SUB), True),
    ],
)
def test_an_entry_covers_by_type_name_and_action(one, wanted, covers):
    assert one.covers(wanted) is covers


def test_every_need_must_be_covered():
    scope = [entry(TOPIC, "orders", SUB), entry(GROUP, "billing", SUB)]
    both = [need(TOPIC, "orders", SUB), need(GROUP, "billing", SUB)]
    assert is_in_scope(scope, both)
    assert not is_in_scope(scope[:1], both)
    assert not is_in_scope([], both)


def test_the_other_kinds():
    scope = [entry(TOPIC, "orders", SUB)]
    assert is_in_scope([], [AnyUser(), Open()])
    assert not is_in_scope([entry(None, "*", ALL)], [Inner()])
    assert not is_in_scope([entry(None, "*", ALL)], ["of no kind"])
    assert not is_in_scope(scope, [OfRecord(SUB)])
    assert is_in_scope(scope, [OfRecord(SUB).on("orders")])
    assert is_in_scope([entry(TOPIC, "*", SUB)], [OfRecord(SUB)])
