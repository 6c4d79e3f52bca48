"""The judge of orderly consumers finds each message that comes too soon, and accepts what an acknowledgement without an answer may do."""

from __future__ import annotations

from gantry_loadtest.mixed.key_order import KeyOrder


def order_with(done: int) -> KeyOrder:
    order = KeyOrder(16)
    assert order.is_next("k", done)
    order.done("k", done)
    return order


def test_the_next_message_follows_the_acknowledged_one() -> None:
    order = order_with(0)
    assert order.is_next("k", 16)
    assert order.is_next("k", 16), "it comes again until it is acknowledged"
    assert not order.is_next("k", 32)
    assert order.is_next("other", 5)


def test_an_acknowledged_message_does_not_come_again() -> None:
    order = order_with(16)
    assert not order.is_next("k", 16)
    assert not order.is_next("k", 0)


def test_after_an_acknowledgement_without_an_answer_the_message_or_the_next_one_comes() -> None:
    order = order_with(0)
    order.perhaps_done("k", 16)
    assert order.is_next("k", 16), "it took no effect"
    assert not order.is_next("k", 48)
    assert order.is_next("k", 32), "it took effect"
    assert not order.is_next("k", 16), "then it is done"


def test_an_answer_ends_the_doubt() -> None:
    order = order_with(0)
    order.perhaps_done("k", 16)
    order.done("k", 16)
    assert order.is_next("k", 32)
    assert not order.is_next("k", 16)
