"""Which rule counts first, whatever the order in which entries were given."""

from itertools import permutations

import pytest
from access_texts import HERE, entries, entry, need

from gantry_access.evaluation.rules import RuleIndex, SubjectRules
from gantry_access.model.needs import Need
from gantry_access.model.policies import PolicyType, SubjectPolicies
from gantry_access.model.resources import EVERYTHING, Resource, ResourceType
from gantry_access.model.users import Subject

NESTED = ("Topic:orders-eu", "Topic:orders-*", "Topic:ord*", "Topic:*", "*")
"""From narrow to wide."""


def rules(*custom, default=()):
    return SubjectRules(SubjectPolicies(Subject("alice"), custom, default))


def deciding(found, text, source=HERE):
    rule = found.deciding(need(text), source)
    return rule.entry if rule else None


@pytest.mark.parametrize("place", range(len(NESTED)))
@pytest.mark.parametrize("decision", ["Allow", "Deny"])
def test_the_narrowest_entry_decides_in_every_order_of_insertion(place, decision):
    """RocketMQ 5.3.0 to 5.3.3 let the entry decide that was stored last."""
    other = "Deny" if decision == "Allow" else "Allow"
    given = [entry(f"{decision} Pub {NESTED[place]}")]
    given += [entry(f"{other} Pub {wider}") for wider in NESTED[place + 1 :]]
    for order in permutations(given):
        index = RuleIndex(PolicyType.CUSTOM, order)
        assert index.covering(Resource.topic("orders-eu"))[0].entry == given[0]
        assert deciding(rules(*order), "Pub Topic:orders-eu") == given[0]


def test_the_rules_about_a_resource_come_from_narrow_to_wide():
    found = rules(
        *(entry(f"Allow Pub {resource}") for resource in NESTED), entry("Allow Pub Group:orders-eu")
    )
    covering = found.covering(Resource.topic("orders-eu"))
    assert [rule.entry.resource.text for rule in covering] == list(NESTED)


@pytest.mark.parametrize("resource", NESTED)
def test_deny_wins_over_allow_on_the_same_resource(resource):
    for order in permutations(entries(f"Allow Pub,Sub {resource}", f"Deny All {resource}")):
        assert deciding(rules(*order), "Pub Topic:orders-eu") == entry(f"Deny All {resource}")


def test_one_resource_may_have_an_allowed_and_a_denied_action():
    found = rules(*entries("Allow Sub Topic:a", "Deny Pub Topic:a"))
    assert deciding(found, "Sub Topic:a") == entry("Allow Sub Topic:a")
    assert deciding(found, "Pub Topic:a") == entry("Deny Pub Topic:a")
    assert deciding(found, "Get Topic:a") is None


def test_one_action_of_the_alternatives_is_enough():
    found = rules(*entries("Allow Get Topic:a", "Allow All Topic:b"))
    assert deciding(found, "Sub,Get Topic:a") == entry("Allow Get Topic:a")
    assert deciding(found, "Sub,Get Topic:b") == entry("Allow All Topic:b")
    assert deciding(found, "Sub,Pub Topic:a") is None


def test_a_narrow_entry_about_other_actions_or_addresses_leaves_the_decision_to_a_wider_one():
    found = rules(*entries("Deny Sub Topic:a", "Deny Pub Topic:a 192.168.0.0/16", "Allow Pub Topic:*"))
    assert deciding(found, "Pub Topic:a") == entry("Allow Pub Topic:*")


def test_default_entries_count_only_if_no_custom_entry_matches():
    found = rules(entry("Allow Pub *"), default=entries("Deny Pub Topic:a", "Allow Sub Topic:*"))
    assert deciding(found, "Pub Topic:a") == entry("Allow Pub *")
    assert deciding(found, "Sub Topic:a") == entry("Allow Sub Topic:*")


def test_a_prefix_covers_the_name_that_is_the_prefix_and_no_shorter_one():
    found = rules(entry("Allow Pub Topic:ab*"))
    assert deciding(found, "Pub Topic:ab") == entry("Allow Pub Topic:ab*")
    assert deciding(found, "Pub Topic:a") is None


def test_a_longer_prefix_of_another_name_does_not_hide_the_shorter_one():
    found = rules(*entries("Deny Pub Topic:abcdef*", "Allow Pub Topic:ab*"))
    assert deciding(found, "Pub Topic:abc") == entry("Allow Pub Topic:ab*")


@pytest.mark.parametrize("kind", list(ResourceType))
def test_types_do_not_cover_each_other(kind):
    found = rules(entry(f"Allow All {kind.value}:*"))
    for other in ResourceType:
        decided = deciding(found, f"Get {other.value}:a")
        assert (decided is not None) == (other is kind)


def test_all_topics_are_seen_only_by_entries_that_cover_them_all():
    found = rules(*entries("Allow List Topic:a*", "Allow List Topic:a"))
    assert deciding(found, "List Topic:*") is None
    assert deciding(rules(entry("Allow List Topic:*")), "List Topic:*") == entry("Allow List Topic:*")
    assert found.deciding(Need(EVERYTHING, need("List *").actions), HERE) is None
    assert deciding(rules(entry("Allow List *")), "List *") == entry("Allow List *")


def test_all_names_with_a_prefix_are_seen_by_a_shorter_prefix_and_not_by_the_name():
    found = rules(*entries("Allow List Topic:ab", "Allow List Topic:a*"))
    assert deciding(found, "List Topic:ab*") == entry("Allow List Topic:a*")
    assert deciding(rules(*entries("Allow List Topic:ab")), "List Topic:ab*") is None


@pytest.mark.parametrize(
    "part", ["Deny Get Topic:secret", "Deny All Topic:s*", "Deny Get Topic:s* 10.0.0.0/8"]
)
def test_all_names_are_denied_if_one_of_them_is(part):
    found = rules(*entries("Allow Get Topic:*", part))
    assert deciding(found, "Get Topic:*") == entry(part)
    assert deciding(found, "Get Topic:t*") == entry("Allow Get Topic:*")
    assert deciding(found, "Get Topic:other") == entry("Allow Get Topic:*")


@pytest.mark.parametrize(
    "part", ["Deny Pub Topic:secret", "Deny Get Topic:s 11.0.0.0/8", "Deny Get Group:secret"]
)
def test_a_denial_of_something_else_is_no_part_of_the_need(part):
    assert deciding(rules(*entries("Allow Get Topic:*", part)), "Get Topic:*") == entry("Allow Get Topic:*")


def test_a_need_of_all_actions_is_met_by_all_only():
    found = rules(*entries("Allow Pub,Sub,Create,Update,Delete,Get,List Topic:a", "Allow All Topic:b"))
    assert deciding(found, "All Topic:a") is None
    assert deciding(found, "All Topic:b") == entry("Allow All Topic:b")


def test_a_rule_in_words():
    (rule,) = rules(entry("Deny All Topic:a* 10.0.0.0/8")).covering(Resource.topic("ab"))
    assert rule.text == "Custom: Deny All on Topic:a* from 10.0.0.0/8"
