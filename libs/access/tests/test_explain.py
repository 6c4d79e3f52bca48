"""An explanation names the rule that decides, those that lost with the reason, and those that did not match."""

from access_texts import HERE, need, state

from gantry_access.explain import explain, explanation_of
from gantry_access.model.networks import SourceAddress
from gantry_access.model.users import UserStatus, UserType

PUB = need("Pub Topic:orders-eu")


def explained(found, wanted=PUB, source=HERE, name="alice"):
    return explain(found, name, wanted, source, 1)


def test_what_decides_what_loses_and_what_does_not_match():
    found = state(
        "Allow Pub Topic:orders-* 10.0.0.0/8",
        "Deny Pub Topic:orders-* 192.168.0.0/16",
        "Allow Sub Topic:orders-eu",
        "Deny All *",
        "Allow Pub Topic:billing",
        default=["Allow All Topic:*"],
    )
    assert explained(found) == (
        "User:alice Pub on Topic:orders-eu from 10.0.0.5: allowed\n"
        "  decides    Custom: Allow Pub on Topic:orders-* from 10.0.0.0/8\n"
        "  no match   Custom: Allow Sub on Topic:orders-eu (another action)\n"
        "  no match   Custom: Deny Pub on Topic:orders-* from 192.168.0.0/16 (another address)\n"
        "  loses      Custom: Deny All on * (Topic:orders-* is more specific)\n"
        "  loses      Default: Allow All on Topic:* (Default entries count only if no Custom entry matches)\n"
    )


def test_entries_on_the_resource_of_the_rule_that_decides():
    found = state("Deny Pub Topic:orders-eu", "Deny All Topic:orders-eu", "Allow All Topic:orders-eu")
    assert explained(found).splitlines() == [
        "User:alice Pub on Topic:orders-eu from 10.0.0.5: refused",
        "  decides    Custom: Deny All on Topic:orders-eu",
        "  loses      Custom: Deny Pub on Topic:orders-eu (says the same)",
        "  loses      Custom: Allow All on Topic:orders-eu (Deny wins over Allow on the same resource)",
    ]


def test_without_an_address_rules_with_networks_do_not_match():
    found = state("Allow Pub Topic:orders-eu 0.0.0.0/0 ::/0")
    assert explained(found, source=None) == (
        "User:alice Pub on Topic:orders-eu: refused\n"
        "  decides    nothing matches, so it is refused\n"
        "  no match   Custom: Allow Pub on Topic:orders-eu from 0.0.0.0/0, ::/0 (no address was given)\n"
    )


def test_alternatives_are_named():
    text = explained(state("Allow Get *"), need("Sub,Get Group:g"), SourceAddress.parse("::1"))
    assert text.startswith("User:alice Sub or Get on Group:g from ::1: allowed\n")


def test_a_denied_part_of_what_is_needed_is_named():
    text = explained(state("Allow Get Topic:*", "Deny Get Topic:secret"), need("Get Topic:*"))
    assert text.splitlines()[1:] == [
        "  decides    Custom: Deny Get on Topic:secret",
        "  loses      Custom: Allow Get on Topic:* (Topic:secret is a part of what is needed)",
    ]


def test_users_whose_policies_do_not_count():
    ends = {
        "refused, the user is disabled": state(status=UserStatus.DISABLE),
        "refused, the user has expired": state(expires_ms=0),
        "allowed, a Super user skips all policies": state("Deny All *", type=UserType.SUPER),
        "allowed, Gantry's own services skip all policies": state(type=UserType.INNER),
        "refused, there is no user of this name": state().without_user("alice"),
    }
    for end, found in ends.items():
        assert explained(found) == f"User:alice Pub on Topic:orders-eu from 10.0.0.5: {end}\n"


def test_the_parts_of_an_explanation_are_those_of_its_text():
    found = state("Allow Pub Topic:orders-*", "Allow Sub Topic:orders-eu", "Deny All *")
    parts = explanation_of(found, "alice", PUB, HERE, 1)
    assert parts.text == explained(found)
    assert parts.verdict.is_allowed
    assert [(one.part.value, one.rule.text, one.why) for one in parts.rules] == [
        ("decides", "Custom: Allow Pub on Topic:orders-*", ""),
        ("no match", "Custom: Allow Sub on Topic:orders-eu", "another action"),
        ("loses", "Custom: Deny All on *", "Topic:orders-* is more specific"),
    ]


def test_nothing_decides_about_what_nothing_covers():
    parts = explanation_of(state("Allow Pub Topic:billing"), "alice", PUB, HERE, 1)
    assert (parts.verdict.is_allowed, parts.rules) == (False, ())
