"""Retry policy, order and start of a group, over HTTP and in the stores' format."""

from __future__ import annotations

import pytest
from gateway_problem_check import check
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.group_options import RetryPolicy, read_policy

GROUP = "/v1/groups/g2"
WAITS = st.integers(min_value=0, max_value=40 * 86_400_000)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"type": "list", "delaysMs": [1000, 5000]}, "list:1000ms,5000ms"),
        (
            {"type": "exponential", "initialMs": 1000, "multiplier": 1.5, "maxMs": 60000, "jitter": 0.2},
            "exponential:initial=1000ms,multiplier=1.5,max=60000ms,jitter=0.2",
        ),
    ],
)
async def test_a_policy_is_stored_and_shown(client, system, policy, text):
    body = {"retryMaxTimes": 5, "retryPolicy": policy, "order": "shardingKey", "startAt": "latest"}
    shown = (await client.put(GROUP, json=body)).json()
    assert body.items() <= shown.items()
    kept = system.stores["broker-a"].kept_groups["g2"]
    assert (kept.retry_policy, kept.order, kept.start) == (text, "shardingKey", "latest")
    await client.post(f"{GROUP}:pause")
    assert body.items() <= (await client.get(GROUP)).json().items()
    definitions = (await client.get("/v1/definitions")).json()
    assert body.items() <= next(one for one in definitions["groups"] if one["group"] == "g2").items()
    assert (await client.put("/v1/definitions", json=definitions)).status_code == 200


@pytest.mark.anyio
async def test_a_group_without_options_has_the_defaults_again(client, system):
    await client.put(GROUP, json={"order": "shardingKey", "retryPolicy": {"type": "list", "delaysMs": [1]}})
    shown = (await client.put(GROUP, json={})).json()
    assert (shown["retryPolicy"], shown["order"], shown["startAt"]) == (None, "none", "earliest")
    kept = system.stores["broker-a"].kept_groups["g2"]
    assert (kept.retry_policy, kept.order, kept.start) == ("", "", "")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"order": "queue"}, "order"),
        ({"startAt": "noon"}, "startAt"),
        ({"retryPolicy": {"type": "list", "delaysMs": []}}, "retryPolicy.delaysMs"),
        ({"retryPolicy": {"type": "list", "delaysMs": [-1]}}, "retryPolicy.delaysMs[0]"),
        ({"retryPolicy": {"type": "exponential", "initialMs": 9, "maxMs": 8}}, "retryPolicy.maxMs"),
        ({"retryPolicy": {"type": "exponential"}}, "retryPolicy.initialMs"),
        ({"retryPolicy": {"type": "random"}}, "retryPolicy.type"),
    ],
)
async def test_a_bad_option_is_refused_by_name(client, system, body, field):
    check(await client.put(GROUP, json=body), 400, field)
    assert "g2" not in system.stores["broker-a"].kept_groups


@given(delays=st.lists(WAITS, min_size=1, max_size=64))
def test_a_list_survives_a_round_trip(delays):
    assert read_policy(RetryPolicy(tuple(delays)).text()) == RetryPolicy(tuple(delays))


@given(
    initial=WAITS, most=WAITS, multiplier=st.integers(1000, 100_000), jitter=st.integers(0, 1000),
)  # fmt: skip
def test_growing_delays_survive_a_round_trip(initial, most, multiplier, jitter):
    policy = RetryPolicy((), initial, multiplier / 1000, most, jitter / 1000)
    assert read_policy(policy.text()) == policy


@pytest.mark.parametrize(
    "text",
    ["", "list:", "list:soon", "exponential:max=1s", "other:1s", "exponential:initial=1s,multiplier=x"],
)
def test_an_invalid_policy_is_ignored(text):
    assert read_policy(text) is None


def test_units_of_other_tools_are_read():
    assert read_policy("list:1s,2m,1h,1d,5ms") == RetryPolicy((1000, 120_000, 3_600_000, 86_400_000, 5))
