"""Strategies for values of any typed header or body, derived from its type."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import inspect

# A busy machine slows examples down, so tests have no time limit: bench/ measures time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@pytest.fixture(scope="session")
def values_of() -> Callable[[type], st.SearchStrategy]:
    """Return a function from a msgspec type to a strategy of its values."""
    return lambda kind: _strategy(inspect.type_info(kind))


def _strategy(shape: inspect.Type) -> st.SearchStrategy:  # noqa: PLR0911 - one return per kind of type
    match shape:
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _strategy(field.type) for field in fields})
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_strategy(key), _strategy(value), max_size=3)
        case inspect.CollectionType(item_type=item):
            return st.lists(_strategy(item), max_size=3)
        case inspect.UnionType(types=types):
            return st.one_of(map(_strategy, types))
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.IntType(ge=low, le=high):
            return st.integers(-(2**63) if low is None else low, 2**63 - 1 if high is None else high)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    assert isinstance(shape, inspect.StrType)
    return TEXT
