"""Cores by themselves: queue lists, known brokers, route cache, drafts."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.messages.properties import java_hash
from gateway.http.problems import Problem
from gateway.http.trace import trace_properties
from gateway.ports.stores import Broker
from gateway.requests.checks import time_ms
from gateway.routing import queue_lists
from gateway.routing.brokers import KnownBrokers
from gateway.routing.leaders import Leaders
from gateway.routing.queue_lists import ListHistory, of_counts, parse, parse_previous, previous_text
from gateway.routing.route_cache import RouteCache

counts = st.dictionaries(st.text("abc-", min_size=1, max_size=6), st.integers(1, 40), min_size=1, max_size=4)


@given(counts)
def test_a_queue_list_survives_a_round_trip(by_broker):
    made = of_counts(by_broker)
    assert made is not None
    assert parse(made.text()) == made
    assert parse_previous(previous_text(made, 5)) == (made, 5)


@given(counts, st.text(min_size=1))
def test_a_key_has_one_queue_of_the_list_whatever_the_order_of_brokers(by_broker, key):
    made = of_counts(by_broker)
    again = of_counts(dict(reversed(by_broker.items())))
    assert made is not None
    assert again is not None
    assert made.queue_of(key) == again.queue_of(key)
    assert made.queue_of(key) in made.queues


def test_a_key_chooses_as_rocketmqs_clients_do():
    made = of_counts({"broker-a": 4, "broker-b": 4})
    assert made is not None
    for key in (
        "order-1",
        "order-2",
        "zażółć",
        "polygenelubricants",
    ):  # the last has the lowest hash there is
        value = java_hash(key)
        remainder = abs(value) % 8 if value != -(2**31) else 0
        assert made.queue_of(key) == made.queues[remainder]


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_a_list(text):
    made = parse(text)
    assert made is None or made.queues
    parse_previous(text)


@pytest.mark.parametrize("text", ["", "a", "a:", ":4", "a:b", "a:-1", "a:0", ";;", "a:²"])
def test_an_invalid_list_is_none(text):
    assert parse(text) is None


@pytest.mark.parametrize("text", ["a:65537", "a:2147483648", f"a:{'9' * 5000}", "a:40000;b:40000"])
def test_a_list_of_more_queues_than_are_kept_is_refused(text):
    with pytest.raises(Problem, match="correct it there") as failure:
        parse(text)
    assert (failure.value.status, failure.value.retryable) == (503, True)
    with pytest.raises(Problem):
        parse_previous(f"{text}@5")
    assert parse_previous(f"a:4@{'9' * 5000}") is None


def test_the_previous_list_is_in_use_until_the_window_is_over():
    old, new = of_counts({"a": 1}), of_counts({"a": 2})
    assert old is not None
    assert new is not None
    history = ListHistory(new, old, 1000)
    assert history.in_use(1000 + 599, 600) is old
    assert history.in_use(1000 + 600, 600) is new
    assert queue_lists.ListHistory(new).in_use(0, 600) is new


def test_a_broker_is_known_for_a_while_after_it_went():
    known = KnownBrokers(600)
    known.record_alive([Broker("a", "c", "127.0.0.1:1")], 100)
    assert known.get("a", 700) is not None
    assert known.get("a", 701) is None
    assert known.all(701) == []
    known.record_alive(
        [Broker("a", "", "127.0.0.1:2")], 800
    )  # a route has no cluster name: the known one stays
    assert known.get("a", 800) == Broker("a", "c", "127.0.0.1:2")


@pytest.mark.anyio
async def test_callers_that_miss_together_ask_once(system):
    cache = RouteCache(system, KnownBrokers(600), Leaders(system, system.leave), system.clocks.monotonic)
    await asyncio.gather(*(cache.get("orders") for _ in range(20)))
    assert system.route_calls == 1


@pytest.mark.anyio
async def test_a_hint_makes_the_next_use_ask_again(system):
    cache = RouteCache(system, KnownBrokers(600), Leaders(system, system.leave), system.clocks.monotonic)
    first = await cache.get("orders")
    assert cache.fresh("orders") is first
    cache.forget("orders")
    assert cache.fresh("orders") is None
    again = await cache.get("orders")
    assert again is not first
    assert again.next_queue == first.next_queue


@pytest.mark.anyio
async def test_unused_routes_are_dropped_by_the_poll(system):
    cache = RouteCache(system, KnownBrokers(600), Leaders(system, system.leave), system.clocks.monotonic)
    await cache.get("orders")
    system.clocks.advance(601)
    await cache.refresh(600)
    assert cache.fresh("orders") is None
    assert system.route_calls == 1


@pytest.mark.anyio
async def test_one_caller_that_gives_up_does_not_fail_the_others(system):
    cache = RouteCache(system, KnownBrokers(600), Leaders(system, system.leave), system.clocks.monotonic)
    first = asyncio.ensure_future(cache.get("orders"))
    second = asyncio.ensure_future(cache.get("orders"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).topic == "orders"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1767225600000", 1767225600000),
        ("2026-01-01T00:00:00Z", 1767225600000),
        ("2026-01-01T01:00:00.5+01:00", 1767225600500),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_times_are_read_in_both_forms(text, ms):
    assert time_ms(text, "from") == ms


@given(st.text(max_size=30))
def test_no_text_breaks_the_reading_of_times(text):
    status = 200
    try:
        read = time_ms(text, "from")
    except Problem as problem:
        read, status = 0, problem.status
    assert read >= 0
    assert status in {200, 400}


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_trace_header_breaks_a_send(parent, state):
    text = trace_properties({b"traceparent": parent, b"tracestate": state})
    assert text.count("\x01") == text.count("\x02")
