"""Events between parts of a store that are built one after the other."""

import pytest
from sending_side import NoReaders

from broker_store.commit.visible.store_events import StoreEvents, StoreListeners


def listeners(calls):
    def note(name):
        return lambda subject: calls.append((name, subject))

    async def held(below):
        calls.append(("held", below))

    return StoreListeners(
        note("placed"),
        NoReaders(),
        [note("changed"), note("changed too")],
        [note("removed")],
        [note("group")],
        [held],
        lambda: calls.append(("cut", "")),
    )


@pytest.mark.anyio
async def test_every_listener_is_called_in_order_with_the_name():
    events, calls = StoreEvents(), []
    events.connect(listeners(calls))
    events.topic_changed("orders")
    events.topic_removed("orders")
    events.group_changed("g")
    await events.segment_held(7)
    events.log_cut()
    assert calls == [
        ("changed", "orders"),
        ("changed too", "orders"),
        ("removed", "orders"),
        ("group", "g"),
        ("held", 7),
        ("cut", ""),
    ]


@pytest.mark.parametrize("event", ["topic_removed", "group_changed", "record_placed"])
def test_an_event_before_the_listeners_are_connected_is_a_bug_that_shows(event):
    with pytest.raises(AssertionError, match="call connect first"):
        getattr(StoreEvents(), event)("orders")


def test_readers_before_the_listeners_are_connected_are_a_bug_that_shows():
    with pytest.raises(AssertionError, match="call connect first"):
        _ = StoreEvents().readers


def test_recovery_may_change_topics_before_anybody_listens():
    StoreEvents().topic_changed("orders")


def test_listeners_are_connected_once():
    events = StoreEvents()
    events.connect(listeners([]))
    with pytest.raises(AssertionError, match="already"):
        events.connect(listeners([]))


@pytest.mark.parametrize(
    "left_out",
    [
        "record_placed",
        "readers",
        "topic_changed",
        "topic_removed",
        "group_changed",
        "segment_held",
        "log_cut",
    ],
)
def test_no_listener_can_be_left_out(left_out):
    given = listeners([])
    fields = {name: getattr(given, name) for name in StoreListeners.__slots__ if name != left_out}
    with pytest.raises(TypeError, match=left_out):
        StoreListeners(**fields)
