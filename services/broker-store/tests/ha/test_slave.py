"""What a slave gets, and when it is refused."""

import pytest

from broker_store.ha.slave import HaSettings, Slave, SlaveRefused

SMALL = HaSettings(piece_bytes=100, window_bytes=300, bytes_per_second=0)


def begun(position: int = 0, begin: int = 0, end: int = 10_000, settings: HaSettings = SMALL) -> Slave:
    slave = Slave(settings, 0.0)
    slave.report(position, begin, end, 0.0)
    return slave


def refusal(step) -> tuple[str, str]:
    with pytest.raises(SlaveRefused) as refused:
        step()
    return refused.value.word, str(refused.value)


@pytest.mark.parametrize(
    ("position", "begin", "sent"),
    [(0, 0, 0), (0, 4096, 4096), (4096, 4096, 4096), (700, 0, 700), (10_000, 0, 10_000)],
)
def test_an_empty_slave_gets_everything_and_another_what_it_lacks(position, begin, sent):
    assert begun(position, begin).sent == sent


def test_nothing_is_sent_before_the_first_report():
    slave = Slave(SMALL, 0.0)
    assert not slave.may_get_piece(1.0)
    assert not slave.is_idle(6.0)


def test_a_slave_that_is_ahead_is_refused_with_both_ends_and_what_to_do():
    word, text = refusal(lambda: begun(10_001))
    assert word == "ahead"
    assert "ends at 10001, this one at 10000" in text
    assert "move its storePathRootDir away" in text


def test_a_slave_whose_next_bytes_are_deleted_is_refused():
    word, text = refusal(lambda: begun(4095, begin=4096))
    assert word == "behind"
    assert "4095" in text
    assert "4096" in text


@pytest.mark.parametrize("position", [-1, -(1 << 63)])
def test_a_negative_position_is_refused(position):
    assert refusal(lambda: begun(position))[0] == "malformed"
    assert refusal(lambda: begun().report(position, 0, 10_000, 1.0))[0] == "malformed"


def test_a_report_of_what_was_not_sent_is_refused():
    slave = begun(500)
    slave.sent_piece(100, 0.0)
    slave.report(600, 0, 10_000, 0.1)
    assert refusal(lambda: slave.report(601, 0, 10_000, 0.2))[0] == "malformed"


def test_an_earlier_report_that_arrives_late_changes_nothing():
    slave = begun(500)
    slave.sent_piece(100, 0.0)
    slave.report(600, 0, 10_000, 0.1)
    slave.report(550, 0, 10_000, 0.2)
    assert (slave.reported, slave.in_flight) == (600, 0)


@pytest.mark.parametrize("position", [0, 500])
def test_a_slave_gets_no_more_than_its_window_until_it_reports(position):
    slave = begun(position)
    for _ in range(3):
        assert slave.may_get_piece(0.0)
        slave.sent_piece(100, 0.0)
    assert not slave.may_get_piece(0.0)
    slave.report(slave.sent - 200, 0, 10_000, 0.0)
    assert slave.may_get_piece(0.0)


def test_a_slave_that_reports_zero_again_before_it_has_read_is_no_fault():
    slave = begun(0, begin=4096)
    slave.sent_piece(100, 0.0)
    slave.report(0, 4096, 10_000, 0.1)
    assert slave.in_flight == 100


def test_bytes_are_sent_at_the_pace_that_is_set():
    slave = begun(
        settings=HaSettings(piece_bytes=100, window_bytes=10_000, bytes_per_second=1000, look_seconds=0.15)
    )
    while slave.may_get_piece(0.0):
        slave.sent_piece(100, 0.0)
    assert slave.sent == 200
    assert slave.may_get_piece(0.06)
    slave.sent_piece(100, 0.06)
    assert not slave.may_get_piece(0.1)
    assert slave.may_get_piece(0.2)


def test_an_empty_frame_is_due_five_seconds_after_the_last_frame():
    slave = begun()
    slave.sent_piece(100, 2.0)
    assert not slave.is_idle(6.9)
    assert slave.is_idle(7.0)
    slave.sent_piece(0, 7.0)
    assert not slave.is_idle(11.9)
    assert slave.sent == 100


def test_a_silent_slave_is_closed_after_twenty_seconds_also_before_its_first_report():
    assert refusal(lambda: Slave(SMALL, 0.0).check(20.0))[0] == "silent"
    slave = begun()
    slave.report(0, 0, 10_000, 15.0)
    slave.check(34.9)
    assert refusal(lambda: slave.check(35.0))[0] == "silent"


def test_a_slave_that_reports_and_does_not_get_further_is_closed_after_a_minute():
    slave = begun()
    slave.sent_piece(100, 5.0)
    for at_s in range(10, 65, 10):
        slave.report(0, 0, 10_000, float(at_s))
        slave.check(float(at_s))
    assert refusal(lambda: slave.check(65.0))[0] == "stalled"


def test_a_slave_that_has_everything_may_report_the_same_for_ever():
    slave = begun(500)
    for at_s in range(5, 500, 5):
        slave.report(500, 0, 10_000, float(at_s))
        slave.check(float(at_s))
