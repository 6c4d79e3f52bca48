import pytest

from gantrymq import MessageQueue
from gantrymq.producer.sending.faults import LatencyFaults, avoid_seconds

A, B, C = (MessageQueue("T", name, 0) for name in "abc")


@pytest.mark.parametrize(
    ("latency_ms", "seconds"),
    [
        (0, 0),
        (49, 0),
        (100, 0),
        (549, 0),
        (550, 2),
        (1799, 2),
        (1800, 5),
        (3000, 6),
        (5000, 10),
        (14_999, 10),
        (15_000, 30),
    ],
)
def test_a_broker_is_avoided_by_the_table_of_rocketmq_5(latency_ms, seconds):
    assert avoid_seconds(latency_ms) == seconds


def test_a_slow_broker_is_avoided_until_its_time_is_over():
    faults = LatencyFaults()
    faults.answered("a", 0.6, now=100.0)
    assert not faults.is_available("a", 101.9)
    assert faults.is_available("a", 102.0)
    assert [faults.choose([A, B], start, 101.0) for start in (0, 1)] == [1, 1]
    assert [faults.choose([A, B], start, 102.0) for start in (0, 1)] == [0, 1]


def test_a_failed_broker_is_avoided_for_ten_seconds():
    faults = LatencyFaults()
    faults.failed("a", now=0.0)
    assert not faults.is_available("a", 9.9)
    assert faults.is_available("a", 10.0)


def test_if_all_are_slow_the_fastest_is_used_but_not_the_one_that_just_failed():
    faults = LatencyFaults()
    faults.answered("a", 20.0, 0.0)
    faults.answered("b", 2.0, 0.0)
    faults.answered("c", 4.0, 0.0)
    assert faults.choose([A, B, C], 0, 1.0) == 1
    assert faults.choose([A, B, C], 0, 1.0, avoid="b") == 2
    assert faults.choose([A], 0, 1.0, avoid="a") == 0
