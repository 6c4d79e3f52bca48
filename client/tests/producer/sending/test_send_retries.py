import pytest

from gantry_link.errors import BrokerRefused, ConnectionBusy, ConnectionLost, NotConnected, RequestTimedOut
from gantrymq.producer.sending.retries import is_tried_again, may_pass, pause_seconds


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_codes_that_rocketmq_retries_are_retried(code):
    assert may_pass(BrokerRefused(code, ""))


@pytest.mark.parametrize("code", [3, 13, 22, 26, 29, 604])
def test_permanent_codes_are_not_retried(code):
    assert not may_pass(BrokerRefused(code, ""))


@pytest.mark.parametrize(
    "error",
    [NotConnected("x"), ConnectionBusy("x"), ConnectionLost("x", sent=True), ConnectionLost("x", sent=False)],
)
def test_a_failed_connection_is_retried(error):
    assert may_pass(error)


def test_a_timeout_leaves_no_time_for_a_retry():
    assert not may_pass(RequestTimedOut("x", sent=True))


def test_neither_tries_nor_time_are_exceeded():
    error = NotConnected("x")
    assert is_tried_again(error, 1, 0.1)
    assert not is_tried_again(error, 0, 1.0)
    assert not is_tried_again(error, 1, 0.0)


def test_pauses_grow_and_never_use_up_the_time():
    assert [pause_seconds(tries, 10.0) for tries in (1, 2, 3, 9)] == [0.02, 0.08, 0.32, 0.5]
    assert pause_seconds(9, 0.1) == 0.05
