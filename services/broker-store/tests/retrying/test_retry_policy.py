import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.groups.groups import change_group_attributes
from broker_store.retrying.policy import RETRY_ATTRIBUTE, IllegalPolicy, parse_policy, policy_of


def half() -> float:
    return 0.5


def test_a_list_is_walked_and_its_last_wait_stays():
    policy = parse_policy("list:1s,5s,30s")
    assert [policy.wait_ms(times, half) for times in range(5)] == [1000, 5000, 30_000, 30_000, 30_000]


def test_an_exponential_policy_grows_up_to_its_cap():
    policy = parse_policy("exponential:initial=500ms,multiplier=3,max=10s")
    assert [policy.wait_ms(times, half) for times in range(5)] == [500, 1500, 4500, 10_000, 10_000]
    assert policy.wait_ms(10**9, half) == 10_000


def test_defaults_are_twice_as_long_each_time_up_to_two_hours():
    policy = parse_policy("exponential:initial=1s")
    assert policy.wait_ms(1, half) == 2000
    assert policy.wait_ms(40, half) == 7_200_000


@given(st.floats(0, 1), st.integers(0, 40))
def test_jitter_stays_within_its_share_and_below_the_cap(chance, times):
    policy = parse_policy("exponential:initial=1s,multiplier=2,max=1m,jitter=0.2")
    middle = min(1000 * 2**times, 60_000)
    wait_ms = policy.wait_ms(times, lambda: chance)
    assert round(middle * 0.8) <= wait_ms <= min(round(middle * 1.2), 60_000)


@pytest.mark.parametrize(
    "text",
    [
        "", "list", "list:", "list:1s,,2s", "list:1", "list:-1s", "list:1w", "linear:1s", "list:99999d",
        "list:" + ",".join(["1s"] * 65), "exponential:", "exponential:max=1h", "exponential:initial=1s,grow=2",
        "exponential:initial=1s,multiplier=0.5", "exponential:initial=1s,multiplier=101",
        "exponential:initial=1s,jitter=2", "exponential:initial=1h,max=1s", "exponential:initial=1s,multiplier=nan",
        "exponential:initial",
    ],
)  # fmt: skip
def test_unreadable_input_is_refused_with_a_reason(text):
    with pytest.raises(IllegalPolicy, match=r".{10}"):
        parse_policy(text)


@given(st.text(max_size=40))
def test_any_text_is_a_policy_or_an_illegal_one(text):
    try:
        policy = parse_policy(text)
    except IllegalPolicy:
        return
    assert policy.wait_ms(3, half) >= 0


def test_a_group_without_a_policy_has_rocketmqs():
    assert policy_of({}) is None
    assert policy_of({RETRY_ATTRIBUTE: ""}) is None
    assert policy_of({RETRY_ATTRIBUTE: "from a foreign file"}) is None
    assert policy_of({RETRY_ATTRIBUTE: "list:1s"}) == parse_policy("list:1s")


def test_attributes_change_as_rocketmqs_tools_send_them():
    present = {"a": "1", RETRY_ATTRIBUTE: "list:1s"}
    assert change_group_attributes(present, {}) == present
    assert change_group_attributes(present, {f"+{RETRY_ATTRIBUTE}": "list:2s"}) == {
        "a": "1",
        RETRY_ATTRIBUTE: "list:2s",
    }
    assert change_group_attributes(present, {f"-{RETRY_ATTRIBUTE}": ""}) == {"a": "1"}
    with pytest.raises(IllegalPolicy):
        change_group_attributes(present, {RETRY_ATTRIBUTE: "list:soon"})
