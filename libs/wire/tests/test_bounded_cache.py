"""A full cache gives a new entry a place, and keeps serving names that come round in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bounded_cache import BoundedCache


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), st.integers()), max_size=60))
def test_it_returns_what_was_kept_and_never_more_than_its_limit(limit, steps):
    cache: BoundedCache[int, int] = BoundedCache(limit)
    latest: dict[int, int] = {}
    for key, value in steps:
        cache.keep(key, value)
        latest[key] = value
        assert cache.get(key) == value
        kept = [one for one in latest if cache.get(one) is not None]
        assert len(cache) == len(kept) == min(limit, len(cache))
        assert all(cache.get(one) == latest[one] for one in kept)
    assert len(cache) == min(limit, len(latest))


@pytest.mark.parametrize(("names", "hits_min"), [(1000, 1.0), (1200, 0.6), (2000, 0.15)])
def test_more_names_than_places_that_come_round_in_order_still_find_a_share(names, hits_min):
    """A cache that is emptied when full, or drops the oldest, finds nothing or next to nothing here."""
    cache: BoundedCache[int, int] = BoundedCache(1000)
    hits, rounds = 0, 30
    for turn in range(rounds):
        for name in range(names):
            if cache.get(name) is not None:
                hits += turn >= rounds // 2
            else:
                cache.keep(name, name)
    assert hits / (names * (rounds - rounds // 2)) >= hits_min


def test_names_that_are_not_used_any_more_go():
    cache: BoundedCache[int, int] = BoundedCache(100)
    for name in range(100):
        cache.keep(name, name)
    for name in range(1000, 2000):
        cache.keep(name, name)
    assert not any(cache.get(name) for name in range(1, 100))
