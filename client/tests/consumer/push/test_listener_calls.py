"""Calls of listeners: in the loop without their own task, in threads, one at a time; a faulty listener harms no other."""

import asyncio
import threading
from collections.abc import Sequence
from time import monotonic

import pytest
from received import received, until

from gantrymq.consumer.push.calls import Call, Calling
from gantrymq.consumer.push.concurrent import ConcurrentConsumer
from gantrymq.consumer.push.listeners import Waits, begin, examine, takes_one_message
from gantrymq.consumer.push.orderly import OrderlyConsumer
from gantrymq.consumer.retrying.outcomes import ConsumeContext, ConsumeResult, Outcome
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.hooks import ConsumeCall
from gantrymq.message import MessageQueue, ReceivedMessage

pytestmark = pytest.mark.anyio
QUEUE = MessageQueue("orders", "broker-a", 0)


class Sink:
    def __init__(self) -> None:
        self.done_offsets: list[int] = []
        self.judged: list[tuple[list[int], str | None]] = []
        self.committed: list[int] = []
        self.buried: list[int] = []
        self.rests = 0

    def done(
        self, queue: ProcessQueue, messages: Sequence[ReceivedMessage], calls: int, seconds: float
    ) -> None:
        queue.remove(messages)
        self.done_offsets += [message.queue_offset for message in messages]

    def judge(self, call: Call) -> None:
        assert call.outcome is not None
        self.judged.append(([message.queue_offset for message in call.messages], call.outcome.failure))

    def commit_orderly(self, queue: ProcessQueue, count: int, offset: int, seconds: float) -> None:
        self.committed.append(offset)

    def suspend(
        self,
        queue: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        outcome: Outcome,
        seconds: float,
        rest_seconds: float,
    ) -> None:
        self.rests += 1

    async def bury(self, message: ReceivedMessage, outcome: Outcome) -> bool:
        self.buried.append(message.queue_offset)
        return True


def filled(count: int) -> tuple[ProcessQueue, list[ReceivedMessage]]:
    held = ProcessQueue(QUEUE, 0, monotonic())
    messages = [received(n) for n in range(count)]
    held.put(messages, count)
    return held, messages


def concurrent(
    function, sink: Sink, *, quick: bool = False, batch: int = 1, workers: int = 4, hooks=()
) -> ConcurrentConsumer:
    return ConcurrentConsumer(
        Calling(examine(function, quick=quick), "g", monotonic, hooks), sink, batch, workers
    )


async def test_a_waiting_call_lets_others_run_up_to_the_limit() -> None:
    sink, gate, running, most = Sink(), asyncio.Event(), 0, 0

    async def listener(messages: list[ReceivedMessage]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    consumer = concurrent(listener, sink, workers=3)
    consumer.submit(*filled(8))
    await until(lambda: running == 3)
    await asyncio.sleep(0.01)
    assert most == 3
    assert consumer.is_busy
    gate.set()
    await until(lambda: len(sink.done_offsets) == 8)
    assert not consumer.is_busy
    await consumer.close()


async def test_calls_that_do_not_wait_share_one_task_and_are_recorded_together() -> None:
    sink, tasks = Sink(), set()

    async def listener(messages: list[ReceivedMessage]) -> None:
        tasks.add(asyncio.current_task())

    consumer = concurrent(listener, sink, batch=4)
    consumer.submit(*filled(10))
    await until(lambda: len(sink.done_offsets) == 10)
    assert len(tasks) == 1
    assert sink.done_offsets == list(range(10))
    await consumer.close()


async def test_timeouts_and_task_groups_work_in_a_listener() -> None:
    sink = Sink()

    async def listener(messages: list[ReceivedMessage]) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(3600)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))

    consumer = concurrent(listener, sink)
    consumer.submit(*filled(3))
    await until(lambda: len(sink.done_offsets) == 3)
    await consumer.close()


class Nameless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("way", ["coroutine", "later", "thread"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("delay_level", None), ("delay_level", "3"), ("ack_index", 0.5), ("suspend_seconds", float("nan"))],
)
async def test_a_context_with_an_impossible_value_makes_its_call_fail(
    way: str, field: str, value: object
) -> None:
    sink = Sink()

    def plain(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        setattr(context, field, value)

    async def coroutine(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        await asyncio.sleep(0 if way == "later" else 0.001)
        plain(messages, context)

    async def at_once(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        plain(messages, context)

    function = {"thread": plain, "coroutine": at_once, "later": coroutine}[way]
    consumer = concurrent(function, sink)
    consumer.submit(*filled(1))
    await until(lambda: sink.judged)
    ((offsets, failure),) = sink.judged
    assert offsets == [0]
    assert failure is not None
    assert failure.startswith(f"the listener set {field} to {value!r}")
    await consumer.close()


@pytest.mark.parametrize("way", ["coroutine", "later", "quick", "thread"])
async def test_no_exception_or_result_of_a_listener_ends_a_worker(way: str) -> None:
    sink = Sink()
    wrong: list[object] = [
        RuntimeError("no"),
        asyncio.CancelledError(),
        "nonsense",
        ConsumeResult.RECONSUME_LATER,
        Nameless(),
        Unshowable(),
        None,
    ]

    def plain(messages: list[ReceivedMessage]):
        outcome = wrong[messages[0].queue_offset]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def coroutine(messages: list[ReceivedMessage]):
        return plain(messages)

    async def later(messages: list[ReceivedMessage]):
        await asyncio.sleep(0)
        return plain(messages)

    function = {"coroutine": coroutine, "later": later}.get(way, plain)
    consumer = concurrent(function, sink, quick=way == "quick", workers=1)
    consumer.submit(*filled(len(wrong)))
    await until(lambda: len(sink.judged) == 6 and sink.done_offsets == [6])
    assert sorted(offsets for offsets, _ in sink.judged) == [[n] for n in range(6)]
    assert all(failure for _, failure in sink.judged)
    await consumer.close()


async def test_a_listener_that_ends_its_thread_ends_only_its_call() -> None:
    """SystemExit in a thread ends that thread alone, without a word: the messages would stay unconsumed for ever."""
    sink = Sink()

    def listener(messages: list[ReceivedMessage]) -> None:
        if messages[0].queue_offset < 3:
            raise SystemExit(1)

    consumer = concurrent(listener, sink, workers=1)
    consumer.submit(*filled(4))
    await until(lambda: len(sink.judged) == 3 and sink.done_offsets == [3])
    assert all(failure == "the listener raised SystemExit: 1" for _, failure in sink.judged)
    await until(lambda: not consumer.is_busy)
    await consumer.close()


@pytest.mark.parametrize("way", ["coroutine", "thread"])
async def test_an_expired_call_has_no_effect(way: str) -> None:
    sink, gate, thread_gate = Sink(), asyncio.Event(), threading.Event()

    async def coroutine(messages: list[ReceivedMessage]) -> None:
        await gate.wait()

    def plain(messages: list[ReceivedMessage]) -> None:
        thread_gate.wait(30)

    consumer = concurrent(coroutine if way == "coroutine" else plain, sink)
    consumer.submit(*filled(1))
    late: list[Call] = []
    async with asyncio.timeout(30):
        while not late:
            late = consumer.expire(monotonic())
            await asyncio.sleep(0.001)
    assert [message.queue_offset for message in late[0].messages] == [0]
    assert consumer.expire(monotonic()) == []
    gate.set()
    thread_gate.set()
    await until(lambda: not consumer.is_busy)
    assert (sink.done_offsets, sink.judged) == ([], [])
    await consumer.close()


async def test_no_call_starts_for_a_dropped_queue() -> None:
    sink, calls = Sink(), []
    held, messages = filled(5)

    def quick(batch: list[ReceivedMessage]) -> None:
        calls.append(batch[0].queue_offset)
        held.dropped = len(calls) == 2

    consumer = concurrent(quick, sink, quick=True)
    consumer.submit(held, messages)
    await until(lambda: not consumer.is_busy)
    assert calls == [0, 1]
    assert sink.done_offsets == [0, 1]
    await consumer.close()


async def test_hooks_see_each_call_and_cannot_break_it() -> None:
    sink, hook_calls = Sink(), []

    class Hook:
        def before(self, call: ConsumeCall) -> None:
            hook_calls.append(("before", call.success))
            raise RuntimeError("a hook's own fault")

        def after(self, call: ConsumeCall) -> None:
            hook_calls.append(("after", call.success))

    def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        if messages[0].queue_offset:
            raise RuntimeError("no")

    consumer = concurrent(listener, sink, hooks=[Hook()], workers=1)
    consumer.submit(*filled(2))
    await until(lambda: len(sink.judged) == 1 and sink.done_offsets == [0])
    assert sorted(hook_calls, key=str) == [
        ("after", False),
        ("after", True),
        ("before", None),
        ("before", None),
    ]
    await consumer.close()


@pytest.mark.parametrize("way", ["coroutine", "thread"])
async def test_an_orderly_queue_waits_for_a_failed_message_and_for_its_lock(way: str) -> None:
    sink, calls = Sink(), []

    def plain(messages: list[ReceivedMessage]) -> None:
        offset = messages[0].queue_offset
        calls.append(offset)
        if offset == 1 and calls.count(1) < 3:
            raise RuntimeError("not yet")
        if offset == 3:
            raise RuntimeError("never")

    async def coroutine(messages: list[ReceivedMessage]) -> None:
        plain(messages)

    calling = Calling(examine(coroutine if way == "coroutine" else plain, quick=False), "g", monotonic)
    consumer = OrderlyConsumer(calling, sink, batch_size=1, calls_max=2, attempts_max=2, rest_seconds=0.01)
    held, _ = filled(5)
    serving = asyncio.ensure_future(consumer.serve(held))
    await asyncio.sleep(0.02)
    assert calls == [], "no lock, no call"
    held.is_locked, held.last_locked = True, monotonic() + 3600
    await until(lambda: sink.committed == [1, 2, 3, 4, 5])
    assert calls == [0, 1, 1, 1, 2, 3, 3, 3, 4]
    assert sink.buried == [3]
    assert sink.rests == 4
    held.dropped = True
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    consumer.close()


async def test_a_restarted_orderly_queue_waits_for_its_running_call() -> None:
    sink, gate, running, most = Sink(), asyncio.Event(), 0, 0

    async def listener(messages: list[ReceivedMessage]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    calling = Calling(examine(listener, quick=False), "g", monotonic)
    consumer = OrderlyConsumer(
        calling, sink, batch_size=1, calls_max=2, attempts_max=2, rest_seconds=0.01, needs_lock=False
    )
    before, after = filled(1)[0], filled(2)[0]
    serving = [asyncio.ensure_future(consumer.serve(before))]
    await until(lambda: running)
    before.dropped = True  # a reset (220)
    serving.append(asyncio.ensure_future(consumer.serve(after)))
    await asyncio.sleep(0.05)
    gate.set()
    await until(lambda: sink.committed == [1, 1, 2])
    assert most == 1, "one call at a time"
    for each in serving:
        each.cancel()
    await asyncio.gather(*serving, return_exceptions=True)


async def test_an_orderly_call_that_waits_for_a_thread_ends_when_its_queue_is_dropped() -> None:
    """Otherwise its queue is never consumed here again, and another member waits until the lock is given up."""
    sink, calls = Sink(), list[int]()
    before, after = filled(1)[0], filled(1)[0]

    class Reset:
        def before(self, call: ConsumeCall) -> None:
            before.dropped = True  # as a rebalance in the moment in which no thread has the call yet

        def after(self, call: ConsumeCall) -> None: ...

    def listener(messages: list[ReceivedMessage]) -> None:
        calls.append(messages[0].queue_offset)

    calling = Calling(examine(listener, quick=False), "g", monotonic, [Reset()])
    consumer = OrderlyConsumer(
        calling, sink, batch_size=1, calls_max=1, attempts_max=2, rest_seconds=0.01, needs_lock=False
    )
    async with asyncio.timeout(20):
        await consumer.serve(before)
    assert (calls, sink.committed, before.taken, consumer.is_busy) == ([], [], 0, False)
    serving = asyncio.ensure_future(consumer.serve(after))
    await until(lambda: sink.committed == [1])
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    consumer.close()


async def test_a_coroutine_continues_after_its_first_step() -> None:
    async def work() -> int:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return 7
        return 0

    begun = begin(work())
    assert isinstance(begun, Waits)

    async def see_through() -> int:
        return await begun

    task = asyncio.ensure_future(see_through())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 7


@pytest.mark.parametrize("way", ["coroutine", "waiting", "thread", "quick"])
@pytest.mark.parametrize("with_context", [False, True])
async def test_a_listener_of_one_message_gets_one(way: str, with_context: bool) -> None:
    sink, seen = Sink(), []

    def note(message: ReceivedMessage, *context: ConsumeContext) -> None:
        assert len(context) == with_context
        seen.append(message.queue_offset)
        if message.queue_offset == 1:
            raise RuntimeError("not this one")

    async def coroutine(message: ReceivedMessage) -> None:
        note(message)

    async def waiting(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        note(message)

    async def coroutine_with_context(message: ReceivedMessage, context: ConsumeContext) -> None:
        note(message, context)

    async def waiting_with_context(message: ReceivedMessage, context: ConsumeContext) -> None:
        await asyncio.sleep(0)
        note(message, context)

    def plain(message: ReceivedMessage) -> None:
        note(message)

    def plain_with_context(message: ReceivedMessage, context: ConsumeContext) -> None:
        note(message, context)

    functions = {
        "coroutine": (coroutine, coroutine_with_context), "waiting": (waiting, waiting_with_context),
        "thread": (plain, plain_with_context), "quick": (plain, plain_with_context),
    }  # fmt: skip
    function = functions[way][with_context]
    assert takes_one_message(function)
    listener = examine(function, quick=way == "quick", takes_one=True)
    consumer = ConcurrentConsumer(Calling(listener, "g", monotonic), sink, 1, 2)
    consumer.submit(*filled(3))
    await until(lambda: len(sink.judged) == 1 and sorted(sink.done_offsets) == [0, 2])
    assert sorted(seen) == [0, 1, 2]
    await consumer.close()


@pytest.mark.parametrize("kind", ["threads", "loop"])
async def test_no_call_starts_for_a_queue_that_was_handed_over(kind: str) -> None:
    """Whatever of it waits for a thread or a worker: another member has it."""
    workers, gate, seen = 3, threading.Event(), list[tuple[int, int]]()

    def note(messages: list[ReceivedMessage]) -> None:
        seen.extend((message.record.queue_id, message.queue_offset) for message in messages)

    def block(messages: list[ReceivedMessage]) -> None:
        note(messages)
        assert gate.wait(60)

    async def wait(messages: list[ReceivedMessage]) -> None:
        note(messages)
        while not gate.is_set():
            await asyncio.sleep(0.001)

    sink = Sink()
    consumer = concurrent(block if kind == "threads" else wait, sink, workers=workers)
    handed_over, messages = filled(50)
    kept, others = filled(20)
    consumer.submit(handed_over, messages)
    await until(lambda: len(seen) == workers)
    consumer.submit(kept, others)
    handed_over.dropped = True
    gate.set()
    await until(lambda: not consumer.is_busy)
    assert len(seen) == workers + len(others)
    assert len(sink.done_offsets) == workers + len(others)
    await consumer.close()
