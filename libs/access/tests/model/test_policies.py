"""Policies of a subject: several entries per resource, changed resource by resource."""

from itertools import permutations

import pytest
from access_texts import entries, entry

from gantry_access.errors import IllegalPolicy
from gantry_access.limits import ENTRIES_PER_SUBJECT_MAX, NETWORKS_PER_ENTRY_MAX
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, PolicyType, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject

ALICE = Subject("alice")


def test_the_order_of_entries_and_doubles_make_no_difference():
    given = entries("Allow Sub Topic:a", "Deny Pub Topic:a", "Allow All *", "Allow Sub Topic:a")
    found = {SubjectPolicies(ALICE, order, order) for order in permutations(given)}
    assert len(found) == 1
    assert len(found.pop().custom) == 3


def test_networks_are_sorted_and_each_once():
    found = entry("Allow Pub Topic:a 10.0.0.2 10.0.0.1 10.0.0.2")
    assert found.text == "Allow Pub on Topic:a from 10.0.0.1, 10.0.0.2"
    assert found == entry("Allow Pub Topic:a 10.0.0.1 10.0.0.2")


def test_a_change_replaces_all_entries_of_its_resources_and_no_other():
    before = SubjectPolicies(ALICE, entries("Allow Sub Topic:a", "Deny Pub Topic:a", "Allow Pub Topic:b"))
    changed = SubjectPolicies(ALICE, entries("Allow Get Topic:a"), entries("Allow Sub Topic:b"))
    after = before.replacing(changed)
    assert after.custom == entries("Allow Get Topic:a", "Allow Pub Topic:b")
    assert after.default == entries("Allow Sub Topic:b")


def test_a_prefix_and_a_literal_of_one_text_are_different_resources():
    before = SubjectPolicies(ALICE, entries("Allow Sub Topic:a", "Allow Sub Topic:a*"))
    assert before.without(PolicyType.CUSTOM, Resource.topic("a")).custom == entries("Allow Sub Topic:a*")


def test_entries_are_removed_from_one_policy_type():
    before = SubjectPolicies(ALICE, entries("Allow Sub Topic:a"), entries("Allow Sub Topic:a"))
    after = before.without(PolicyType.DEFAULT, Resource.topic("a"))
    assert (len(after.custom), len(after.default)) == (1, 0)


def test_an_entry_without_actions_is_refused():
    with pytest.raises(IllegalPolicy, match="names no action"):
        PolicyEntry(Resource.topic("a"), Action(0), Decision.ALLOW)


def test_entries_and_networks_are_bounded():
    networks = tuple(SourceNetwork(4, number, 32) for number in range(NETWORKS_PER_ENTRY_MAX + 1))
    with pytest.raises(IllegalPolicy, match="1001 networks, the limit is 1000"):
        PolicyEntry(Resource.topic("a"), Action.PUB, Decision.ALLOW, networks)
    many = entries("Allow Pub Topic:a") * (ENTRIES_PER_SUBJECT_MAX + 1)
    with pytest.raises(IllegalPolicy, match="10001 policy entries, the limit is 10000"):
        SubjectPolicies(ALICE, many)
