"""Answers that arrive together are reported in portions: sends caused by the first leave before the next is reported."""

import asyncio

import pytest

from gantry_link.connections.turn import Turn
from gantrymq.producer.sending.answers import PORTION_MIN, PORTIONS, Answers

pytestmark = pytest.mark.anyio


class Told:
    """A fake send: records that it was reported, and lets something leave at the end of the turn."""

    def __init__(self, events, number, size=1):
        self.events, self.number, self.size = events, number, size

    def stored(self, _status, _reply):
        self.events.append(self.number)
        asyncio.get_running_loop().call_soon(self.send_again)

    def send_again(self):
        Turn.current().write_at_end(lambda: self.events.append(f"left {self.number}"))


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_few_answers_are_reported_at_once():
    events = []
    answers = Answers(lambda: 0)
    for number in range(PORTION_MIN):
        answers.add(Told(events, number), None)
    assert events == list(range(PORTION_MIN))


async def test_sends_of_the_first_portion_leave_before_the_second_is_reported():
    events = []
    answers = Answers(lambda: 0)
    count = 2 * PORTION_MIN + 3
    for number in range(count):
        answers.add(Told(events, number), None)
    assert events == list(range(PORTION_MIN))
    await turns(8)
    assert [event for event in events if isinstance(event, int)] == list(range(count))
    for first, last in ((PORTION_MIN, PORTION_MIN - 1), (2 * PORTION_MIN, 2 * PORTION_MIN - 1)):
        assert events.index(f"left {last}") < events.index(first)
    assert events[-1] == f"left {count - 1}"


async def test_portions_grow_with_the_outstanding_sends():
    events = []
    open_sends = 10 * PORTIONS * PORTION_MIN
    answers = Answers(lambda: open_sends)
    for number in range(open_sends):
        answers.add(Told(events, number), None)
    await turns(1)
    completed = [event for event in events if isinstance(event, int)]
    assert len(completed) == PORTION_MIN + open_sends // PORTIONS


async def test_a_batch_is_a_portion_of_its_own_and_answers_keep_their_order():
    events = []
    answers = Answers(lambda: 0)
    answers.add(Told(events, 0, size=500), None)
    answers.add(Told(events, 1, size=500), None)
    answers.add(Told(events, 2), None)
    assert events == [0]
    await turns(1)
    answers.add(Told(events, 3), None)  # comes while another one waits
    await turns(6)
    assert [event for event in events if isinstance(event, int)] == [0, 1, 2, 3]
