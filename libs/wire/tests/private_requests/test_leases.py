"""Bodies of receive and acknowledge round-trip, and invalid ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.errors import MalformedBody
from gantry_wire.private_requests.leases import (
    ACK_ITEMS_MAX,
    ItemKind,
    LeasedRun,
    LeaseItem,
    pack_items,
    pack_runs,
    unpack_items,
    unpack_runs,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
RUN = st.builds(LeasedRun, st.integers(0, 65535), INT64, st.integers(0, 65535))
ITEM = st.builds(
    LeaseItem, st.sampled_from(ItemKind), st.integers(0, 1), st.integers(0, 2**31 - 1), INT64, INT64, INT64
)


@given(st.lists(RUN, max_size=20), st.binary(max_size=50))
def test_runs_precede_the_records(runs, records):
    assert unpack_runs(pack_runs(runs) + records, len(runs)) == (runs, records)


@given(st.lists(ITEM, min_size=1, max_size=50))
def test_items_round_trip(items):
    assert [LeaseItem(*fields) for fields in unpack_items(pack_items(items))] == items


@pytest.mark.parametrize("count", [-1, 2, 2**31])
def test_more_runs_than_bytes_are_refused(count):
    with pytest.raises(MalformedBody):
        unpack_runs(b"x" * 13, count)


@pytest.mark.parametrize("body", [b"", b"x", b"\0" * 31, b"\0" * 30 * (ACK_ITEMS_MAX + 1)])
def test_an_invalid_list_of_items_is_refused(body):
    with pytest.raises(MalformedBody):
        unpack_items(body)
