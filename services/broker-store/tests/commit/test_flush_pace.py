"""When a batch waits for more. It never waits long, and never without a reason."""

from broker_store.commit.flush_pace import GATHER_S_MAX, HOLD_S_MAX, REST_FLUSHES, FlushPace

FLUSH_S = 0.0002


def pace_after(
    flushes: int, answered: int, waiting: int, flush_s: float = FLUSH_S
) -> tuple[FlushPace, float]:
    pace, now_s = FlushPace(), 0.0
    for _ in range(flushes):
        pace.began(now_s)
        now_s += flush_s
        pace.ended(now_s, answered, waiting)
    return pace, now_s


def test_a_flush_under_way_holds_what_comes_but_not_one_that_hangs():
    pace, now_s = pace_after(1, 1, 0)
    pace.began(now_s)
    assert pace.holds(now_s + FLUSH_S)
    assert not pace.holds(now_s + HOLD_S_MAX)


def test_a_batch_waits_for_those_that_were_just_answered():
    pace, now_s = pace_after(50, 20, 10)
    assert pace.gathers(now_s, 10)
    assert pace.gathers(now_s + FLUSH_S, 29)
    assert not pace.gathers(now_s + FLUSH_S, 30)


def test_it_waits_no_longer_than_two_flushes_take():
    pace, now_s = pace_after(50, 20, 10)
    assert pace.gathers(now_s + 1.9 * FLUSH_S, 10)
    assert not pace.gathers(now_s + 2.1 * FLUSH_S, 10)


def test_a_slow_disk_delays_no_batch_by_more_than_two_milliseconds():
    pace, now_s = pace_after(50, 20, 10, flush_s=0.5)
    assert not pace.gathers(now_s + GATHER_S_MAX, 10)


def test_a_few_senders_do_not_wait():
    pace, now_s = pace_after(50, 3, 2)
    assert not pace.gathers(now_s, 2)


def flushes_that_wait(pace: FlushPace, now_s: float, flushes: int, arrived: int) -> list[bool]:
    """Return for each flush whether a batch of 10 waits after it; `arrived` are there when the wait is over."""
    waited: list[bool] = []
    for _ in range(flushes):
        waited.append(pace.gathers(now_s, 10))
        assert not pace.gathers(now_s + GATHER_S_MAX, arrived)
        now_s += GATHER_S_MAX
        pace.began(now_s)
        now_s += FLUSH_S
        pace.ended(now_s, 20, 10)
    return waited


def test_after_a_wait_in_vain_some_flushes_wait_for_nobody():
    """Senders at a fixed rate do not come because others were answered."""
    waited = flushes_that_wait(*pace_after(50, 20, 10), 2 * REST_FLUSHES + 2, arrived=12)
    assert waited[: REST_FLUSHES + 1] == [True, *[False] * (REST_FLUSHES - 1), True]
    assert sum(waited) == 3


def test_a_few_stragglers_change_nothing():
    waited = flushes_that_wait(*pace_after(50, 20, 10), 10, arrived=28)
    assert waited == [True] * 10
