import pytest

from broker_store.requests.request_classes import (
    LIMITS,
    ClassLimits,
    RequestClass,
    request_classes,
    waited_too_long,
)
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


def test_a_full_class_refuses_with_overload_until_a_place_is_free():
    klass = RequestClass("query", ClassLimits(2, 5000))
    klass.enter()
    klass.enter()
    with pytest.raises(RefusedRequest) as refused:
        klass.enter()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert refused.value.remark == "[OVERLOAD]system busy, start flow control for a while"
    klass.leave()
    klass.enter()
    assert (klass.in_flight, klass.refused_full, klass.handled) == (2, 1, 1)


def test_the_head_wait_is_that_of_the_oldest():
    klass = RequestClass("query", ClassLimits(10, 5000))
    assert klass.head_wait_ms(100) == 0
    klass.enter(100)
    klass.enter(150)
    assert klass.head_wait_ms(170) == 70
    klass.leave()
    assert klass.head_wait_ms(170) == 20


def test_leaving_more_often_than_entering_is_a_bug():
    with pytest.raises(AssertionError):
        RequestClass("query", ClassLimits(1, 1)).leave()


def test_classes_are_those_of_rocketmq():
    assert set(request_classes()) == set(LIMITS)
    assert LIMITS["send"] == ClassLimits(10_000, 200)
    assert LIMITS["pull"].wait_ms_max == 5_000
    assert LIMITS["heartbeat"].wait_ms_max == 31_000


def test_the_fast_failure_has_rocketmqs_remark():
    assert waited_too_long(201, 3) == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 201ms, size of queue: 3"
    )
