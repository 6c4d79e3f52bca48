"""Requirements: of topics by their names, of open requests, and of records."""

import pytest

from gantry_access.errors import MalformedResource
from gantry_access.model.actions import Action
from gantry_access.model.needs import (
    AnyUser,
    Inner,
    Need,
    OfRecord,
    Open,
    is_open,
    split_of_record,
    topic_requirement,
)
from gantry_access.model.resources import Resource

PUB, SUB = Action.PUB, Action.SUB
TOPIC = Need(Resource.topic("t"), PUB)


def test_the_name_of_a_topic_decides_what_is_required():
    assert topic_requirement("t", PUB) == TOPIC
    assert topic_requirement("%DLQ%g", PUB) == Need(Resource.topic("%DLQ%g"), PUB)
    assert topic_requirement("%RETRY%g", PUB) == Need(Resource.group("g"), PUB)
    assert topic_requirement("%RETRY%g", PUB, on_retry=SUB) == Need(Resource.group("g"), SUB)
    assert topic_requirement("GANTRY_SYS_TASKS", PUB) == Inner()


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_a_topic_with_messages_of_all_topics_needs_the_right_on_all(topic):
    assert topic_requirement(topic, SUB) == Need(Resource.parse("Topic:*"), SUB)
    assert topic_requirement(topic + "2", SUB) == Need(Resource.topic(topic + "2"), SUB)


@pytest.mark.parametrize("topic", ["", "*", "t*", "\ud800", "%RETRY%", "x" * 256])
def test_an_illegal_name_is_malformed(topic):
    with pytest.raises(MalformedResource):
        OfRecord(PUB).on(topic)


def test_a_request_is_open_only_if_all_that_it_requires_is():
    assert is_open([Open()])
    assert not is_open([])
    assert not is_open([Open(), AnyUser()])
    assert not is_open([TOPIC])


def test_what_waits_for_a_record_is_apart_and_the_rest_is_never_empty():
    record = OfRecord(SUB)
    assert split_of_record([TOPIC, record]) == ((TOPIC,), (record,))
    assert split_of_record([record]) == ((AnyUser(),), (record,))
    assert split_of_record([TOPIC]) == ((TOPIC,), ())
    assert split_of_record([]) == ((), ())
