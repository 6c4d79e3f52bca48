"""The lease in what a pop answers: clients take the fields apart and join them again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.pop.handles import extra_info, lease_in, lease_of, split_retry, stamp_of
from gantry_wire.errors import RefusedRequest


@given(
    boot=st.integers(1, (1 << 31) - 1),
    counter=st.integers(0, (1 << 32) - 1),
    now_ms=st.integers(1 << 40, 1 << 42),
    starts=st.integers(0, 1),
)
def test_a_lease_is_found_by_the_store_that_gave_it_and_after_its_next_start(boot, counter, now_ms, starts):
    stamp = stamp_of(boot << 32 | counter, now_ms, 30_000)
    assert -(1 << 31) <= stamp.revive_qid < 1 << 31, "an int of Java"
    assert 0 <= now_ms - stamp.pop_time < 16
    text = extra_info(3, stamp, "0", "broker-a", 2, 5)
    assert text.split(" ") == [
        "3", str(stamp.pop_time), "30000", str(stamp.revive_qid), "0", "broker-a", "2", "5"
    ]  # fmt: skip
    assert lease_in(text, boot + starts) == boot << 32 | counter
    assert lease_of(stamp.pop_time, stamp.revive_qid, boot + starts) == boot << 32 | counter


@pytest.mark.parametrize("text", ["", "1 2 3", "1 x 3 4 0 b 1 2", "1 2 3 y 0 b 1 2"])
def test_another_text_is_refused(text):
    with pytest.raises(RefusedRequest):
        lease_in(text, 1)


def test_the_retry_topics_of_clients_name_the_topic():
    assert split_retry("%RETRY%g_orders", "g") == ("orders", True)
    assert split_retry("%RETRY%g+orders", "g") == ("orders", True)
    assert split_retry("%RETRY%g", "g") == ("%RETRY%g", False)
    assert split_retry("orders", "g") == ("orders", False)
