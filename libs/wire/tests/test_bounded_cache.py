"""A full cache accepts new entries and still hits for names that cycle in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bounded_cache import BoundedCache


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 9), st.integers()), max_size=60))
def test_it_returns_stored_values_and_never_exceeds_its_limit(limit, steps):
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
def test_names_that_cycle_beyond_the_limit_still_get_hits(names, hits_min):
    """A cache that clears itself when full, or evicts the oldest entry, hits almost never here."""
    cache: BoundedCache[int, int] = BoundedCache(1000)
    hits, rounds = 0, 30
    for turn in range(rounds):
        for name in range(names):
            if cache.get(name) is not None:
                hits += turn >= rounds // 2
            else:
                cache.keep(name, name)
    assert hits / (names * (rounds - rounds // 2)) >= hits_min


def test_unused_names_are_evicted():
    cache: BoundedCache[int, int] = BoundedCache(100)
    for name in range(100):
        cache.keep(name, name)
    for name in range(1000, 2000):
        cache.keep(name, name)
    assert not any(cache.get(name) for name in range(1, 100))
