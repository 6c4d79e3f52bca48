"""The index decides as a slow evaluator does that reads every entry, over random users, entries, orders and addresses."""

import random
from itertools import combinations, product

import slow_evaluator
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_access.evaluation.state import AccessState
from gantry_access.model.actions import Action
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress, SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User, UserStatus, UserType

NOW = 1_000
NAMES = ["".join(letters) for size in range(4) for letters in product("ab", repeat=size)]
TEXTS = [
    f"{kind}:{name}{star}"
    for kind in ("Topic", "Group")
    for name in NAMES
    for star in ("", "*")
    if name or star
]
RESOURCES = st.sampled_from([Resource.parse(text) for text in ("*", "Cluster:a", "Cluster:*", *TEXTS)])
ACTIONS = st.sampled_from(
    [
        Action.parse_all(names.split())
        for names in ("Pub", "Sub", "Get", "All", "Pub Sub", "Sub Get", "All Get")
    ]
)
NETWORKS = ["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "::ffff:10.0.0.0/104"]
SOURCES = st.sampled_from(
    [
        (),
        (),
        *(
            tuple(map(SourceNetwork.parse, chosen))
            for size in (1, 2)
            for chosen in combinations(NETWORKS, size)
        ),
    ]
)
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "11.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "::1"])
ENTRIES = st.builds(PolicyEntry, RESOURCES, ACTIONS, st.sampled_from(Decision), SOURCES)
USERS = st.one_of(
    st.just(User("alice")),
    st.builds(
        User,
        st.just("alice"),
        st.sampled_from(UserType),
        st.sampled_from(UserStatus),
        expires_ms=st.sampled_from([None, NOW - 1, NOW, NOW + 1]),
    ),
)
NEEDS = st.lists(st.builds(Need, RESOURCES, ACTIONS), max_size=3)


@settings(max_examples=600)
@given(
    USERS,
    st.lists(ENTRIES, max_size=10),
    st.lists(ENTRIES, max_size=4),
    NEEDS,
    ADDRESSES,
    st.randoms(use_true_random=False),
)
def test_every_decision_equals_the_slow_evaluators_in_any_order(
    user, custom, default, needs, address, order: random.Random
):
    policies = SubjectPolicies(Subject("alice"), tuple(custom), tuple(default))
    state = AccessState.of([user], [policies])
    source = SourceAddress.parse(address)
    verdict = state.decide("alice", needs, source, NOW)
    reason, deciders = slow_evaluator.decide(user, policies, needs, address, NOW)

    assert verdict.reason.value == reason
    if deciders:
        assert verdict.rules[-1].entry in deciders
    assert len(verdict.rules) == {"allowed": len(needs)}.get(reason, len(verdict.rules))
    if reason in {"denied", "no_match"}:
        refused_at = len(verdict.rules) - (reason == "denied")
        assert verdict.refused == needs[refused_at]

    order.shuffle(custom)
    order.shuffle(default)
    other = SubjectPolicies(Subject("alice"), tuple(custom), tuple(default))
    rebuilt = AccessState.of([user], [other])
    step_by_step = rebuilt if user.is_inner else AccessState.of([user]).with_policies(other).with_user(user)
    assert step_by_step.decide("alice", needs, source, NOW) == verdict
    assert state.decide("bob", needs, source, NOW).reason.value == slow_evaluator.decide(None, *[None] * 4)[0]
