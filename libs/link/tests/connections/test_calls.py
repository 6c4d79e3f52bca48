import asyncio
import gc
import weakref

import pytest

from gantry_link.connections.calls import OPAQUE_MASK, SWEEP_SECONDS, Calls
from gantry_link.errors import ConnectionBusy, ConnectionLost, RequestTimedOut
from gantry_wire.frames.command import Command

pytestmark = pytest.mark.anyio


def make_calls(unsent=(), calls_max=100, on_silence=None):
    kept = set(unsent)
    return Calls(lambda opaque: opaque in kept, calls_max, on_silence)


async def test_an_answer_goes_to_the_call_with_its_opaque():
    calls = make_calls()
    first, second = calls.open(1, 5), calls.open(2, 5)
    assert calls.resolve(Command(opaque=2, remark="two"))
    assert (await second).remark == "two"
    assert not first.done()
    calls.resolve(Command(opaque=1))
    assert len(calls) == 0


async def test_an_answer_without_an_open_call_is_dropped():
    calls = make_calls()
    assert not calls.resolve(Command(opaque=7))
    call = calls.open(1, 5)
    call.cancel()
    assert calls.resolve(Command(opaque=1))


async def test_a_call_times_out_and_reports_whether_it_was_sent():
    calls = make_calls(unsent=[2])
    sent, unsent, patient = calls.open(1, 0.01), calls.open(2, 0.02), calls.open(3, 30)
    with pytest.raises(RequestTimedOut) as error:
        await asyncio.wait_for(sent, 30)
    assert error.value.sent
    with pytest.raises(RequestTimedOut) as error:
        await asyncio.wait_for(unsent, 30)
    assert not error.value.sent
    assert not patient.done()
    calls.resolve(Command(opaque=3))


async def test_a_later_call_with_a_shorter_timeout_ends_first():
    calls = make_calls()
    patient = calls.open(1, 30)
    await asyncio.sleep(SWEEP_SECONDS * 1.5)
    hasty = calls.open(2, 0.01)
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(hasty, 30)
    assert not patient.done()
    calls.resolve(Command(opaque=1))


async def test_the_timer_stops_without_open_calls_and_starts_again():
    calls = make_calls()
    calls.open(1, 0.2)
    calls.resolve(Command(opaque=1))
    async with asyncio.timeout(30):
        while calls.is_watched:
            await asyncio.sleep(SWEEP_SECONDS)
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(calls.open(2, 0.01), 30)


async def test_the_timer_sleeps_until_the_earliest_deadline(monkeypatch):
    loop, times = asyncio.get_running_loop(), []
    call_at = loop.call_at
    monkeypatch.setattr(
        loop, "call_at", lambda when, *rest, **more: times.append(when) or call_at(when, *rest, **more)
    )
    calls, other = make_calls(), make_calls()
    calls.open(1, 30)
    calls.open(2, 40)
    other.open(1, 20)
    assert [round(when - loop.time()) for when in times] == [30, 20]
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(other.open(2, 0.01), 30)
    assert round(times[-1] - loop.time()) == 20


async def test_a_deadline_of_an_answered_call_hides_no_earlier_one():
    calls, other = make_calls(), make_calls()
    calls.open(1, 1)
    calls.resolve(Command(opaque=1))
    with pytest.raises(RequestTimedOut):  # this sweep finds no open call in `calls`
        await asyncio.wait_for(other.open(1, 0.01), 30)
    calls.open(2, 60)
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(calls.open(3, 2), 20)


async def test_a_lost_connection_is_not_kept_until_the_deadline_of_its_calls():
    def withdraw(_opaque):
        return False

    calls, lost = Calls(withdraw, 100, None), weakref.ref(withdraw)
    calls.open(1, 600).cancel()
    calls.fail_all(lambda sent: ConnectionLost("gone", sent=sent))
    del calls, withdraw
    gc.collect()
    assert lost() is None


async def test_a_lost_connection_ends_every_call():
    calls = make_calls(unsent=[2])
    sent, unsent = calls.open(1, 5), calls.open(2, 5)
    calls.fail_all(lambda was_sent: ConnectionLost("gone", sent=was_sent))
    for call, was_sent in ((sent, True), (unsent, False)):
        with pytest.raises(ConnectionLost) as error:
            await call
        assert error.value.sent is was_sent


async def test_open_calls_are_limited():
    calls = make_calls(calls_max=2)
    calls.open(1, 5)
    calls.open(2, 5)
    with pytest.raises(ConnectionBusy) as error:
        calls.open(3, 5)
    assert not error.value.sent


async def test_opaques_wrap_and_skip_open_calls():
    calls = make_calls()
    calls._opaque = OPAQUE_MASK - 1
    calls.open(0, 5)
    calls.open(1, 5)
    assert [calls.next_opaque() for _ in range(2)] == [OPAQUE_MASK, 2]


async def test_a_timeout_of_a_sent_call_is_reported_with_its_start():
    starts = []
    calls = make_calls(on_silence=starts.append)
    loop = asyncio.get_running_loop()
    before = loop.time()
    call, after = calls.open(1, 0.01), loop.time()
    with pytest.raises(RequestTimedOut):
        await asyncio.wait_for(call, 30)
    assert before <= starts[0] <= after


async def test_a_connection_that_ends_during_a_sweep_stops_no_timeout():
    def end(_started):
        ending.fail_all(lambda sent: ConnectionLost("silent", sent=sent))

    ending, other = make_calls(on_silence=end), make_calls()
    calls = [ending.open(opaque, 0.01) for opaque in (1, 2, 3)]
    await asyncio.sleep(0)
    calls.append(other.open(1, 0.02))
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
    assert [type(outcome) for outcome in outcomes] == [
        RequestTimedOut,
        ConnectionLost,
        ConnectionLost,
        RequestTimedOut,
    ]
    with pytest.raises(RequestTimedOut):  # the timer is still running
        await asyncio.wait_for(other.open(2, 0.01), 30)


async def test_a_failing_watcher_is_reported_and_stops_no_timeout():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    failing, other = make_calls(on_silence=lambda _started: 1 // 0), make_calls()
    calls = [failing.open(1, 0.01), other.open(1, 0.01)]
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
    asyncio.get_running_loop().set_exception_handler(None)
    assert [type(outcome) for outcome in outcomes] == [RequestTimedOut] * 2
    assert isinstance(reported[0]["exception"], ZeroDivisionError)


async def test_opaques_for_many_calls_are_unused_even_if_they_wrap():
    calls = make_calls()
    assert list(calls.next_opaques(3)) == [1, 2, 3]
    held = calls.open(5, 30)
    assert list(calls.next_opaques(3)) == [4, 6, 7]
    calls._opaque = OPAQUE_MASK - 1
    assert list(calls.next_opaques(3)) == [OPAQUE_MASK, 0, 1]
    calls.resolve(Command(opaque=5))
    await held


async def test_calls_opened_together_time_out_separately():
    calls, loop = make_calls(), asyncio.get_running_loop()
    hasty, patient = loop.create_future(), loop.create_future()
    now = loop.time()
    calls.open_together({1: (patient, now + 60, now), 2: (hasty, now + 0.05, now)}, now + 0.05)
    assert len(calls) == 2
    with pytest.raises(RequestTimedOut, match=r"within 0\.05 s"):
        await asyncio.wait_for(hasty, 30)
    assert calls.resolve(Command(opaque=1, remark="one"))
    assert (await patient).remark == "one"
