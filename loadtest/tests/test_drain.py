"""Readers run while messages still arrive, up to a time limit, and never end before the last due message could arrive."""

from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.load.drain import DRAINS_MAX, Drain

SECONDS = st.floats(0, 1000)


@given(st.floats(1, 100), SECONDS, SECONDS, SECONDS)
def test_readers_get_time_after_the_last_message_but_not_forever(
    quiet: float, began: float, moved_at: float, due_at: float
) -> None:
    drain = Drain(quiet, began)
    since = max(began, due_at)
    assert not drain.is_over(since + 0.99 * quiet, moved_at, due_at)
    assert drain.is_over(max(since, moved_at) + quiet, moved_at, due_at)
    assert drain.is_over(since + DRAINS_MAX * quiet, moved_at, due_at)


def test_trickling_messages_keep_readers_running_up_to_the_limit() -> None:
    drain = Drain(4.0, 10.0)
    ends = next(second for second in range(10, 1000) if drain.is_over(second, second - 1.0, 0.0))
    assert ends == 10 + DRAINS_MAX * 4
