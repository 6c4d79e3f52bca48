"""A producer's result of each message is correct, whatever is batched with it: place, id, duplicate, refusal, order."""

import asyncio
import itertools
from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from consuming import Served, fresh, make_topic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import gantrymq
from gantrymq import GantryError, Message, MessageQueue, Producer, PullConsumer, SendResult

pytestmark = pytest.mark.cluster
KEY = "__GANTRY_KEY"
_runs = itertools.count()


@dataclass(frozen=True)
class Kind:
    """What is special about a message."""

    key: int | None = None
    content: int = 0
    """Of a keyed message: two messages of one key have the same content, or are in conflict."""
    padding: int = 0
    name: str = "plain"


kinds = some.one_of(
    some.builds(Kind, padding=some.sampled_from([0, 0, 60, 5000])),
    some.builds(Kind, key=some.integers(0, 2), content=some.sampled_from([0, 0, 0, 1])),
    some.sampled_from(
        [Kind(name="timed"), Kind(name="bad flag"), Kind(name="no wait"), Kind(name="sharded")]
    ),
)
chosen = some.sampled_from([None, 0, 0, 1])
steps = some.lists(
    some.one_of(
        some.tuples(some.just("send"), some.tuples(kinds, chosen)),
        some.tuples(some.just("batch"), some.tuples(some.lists(kinds, min_size=1, max_size=4), chosen)),
        some.just(("rest", None)),
    ),
    min_size=1,
    max_size=12,
)


@dataclass
class Sent:
    """One message and what was said of it."""

    kind: Kind
    message: Message
    queue: MessageQueue | None
    outcome: asyncio.Future[SendResult]


@dataclass
class Run:
    """A mix of messages, sent as drawn."""

    topic: str
    queues: list[MessageQueue]
    prefix: str
    sent: list[Sent] = field(default_factory=list)

    def make(self, kind: Kind) -> Message:
        number = len(self.sent)
        body = f"{self.prefix} {number}" if kind.key is None else f"{self.prefix} k{kind.key} {kind.content}"
        message = Message(
            self.topic,
            body.encode() + bytes(kind.padding),
            wait_stored=kind.name != "no wait",
            sharding_key="one" if kind.name == "sharded" else None,
            properties={KEY: f"{self.prefix}-{kind.key}"} if kind.key is not None else None,
        )
        if kind.name == "timed":
            message.properties = {"TIMER_DELAY_SEC": "3600"}
        if kind.name == "bad flag":
            message.flag = 2**40
        return message

    def send(self, producer: Producer, kind: Kind, chosen: int | None) -> None:
        queue = None if chosen is None or kind.name == "sharded" else self.queues[chosen]
        message = self.make(kind)
        try:
            outcome = producer.send_soon(message, queue=queue)
        except gantrymq.InvalidMessage as error:
            outcome = asyncio.get_running_loop().create_future()
            outcome.set_exception(error)
        self.sent.append(Sent(kind, message, queue, outcome))

    async def batch(self, producer: Producer, mix: list[Kind], chosen: int | None) -> None:
        mix = [kind for kind in mix if kind.name == "plain"]
        if not mix:
            return
        queue = None if chosen is None else self.queues[chosen]
        messages = []
        for kind in mix:
            messages.append(self.make(kind))
            outcome: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
            self.sent.append(Sent(kind, messages[-1], queue, outcome))
        waiting = [each.outcome for each in self.sent[-len(mix) :]]
        try:
            outcomes = await producer.send_batch(messages, queue=queue)
        except gantrymq.BatchIncomplete as incomplete:
            outcomes = incomplete.results
        except GantryError as error:
            outcomes = [error] * len(mix)
        for future, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, SendResult):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)


@pytest.fixture(scope="module")
def one_broker_topic(served: Served) -> tuple[str, str]:
    """A topic on one broker: keys are known to the broker that stored them."""
    one = replace(served, brokers=served.brokers[:1])
    return served.nameserver, asyncio.run(make_topic(one, queues=2, name="gathered"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=steps,
    linger=some.sampled_from([None, 0.0, 0.002]),
    batch_bytes_max=some.sampled_from([300, 32 * 1024]),
)
def test_each_result_is_that_of_its_message(one_broker_topic, steps, linger, batch_bytes_max) -> None:
    asyncio.run(check(one_broker_topic, steps, linger, batch_bytes_max))


async def check(one_broker_topic: tuple[str, str], steps, linger: float | None, batch_bytes_max: int) -> None:
    nameserver, topic = one_broker_topic
    options = {"nameservers": nameserver, "linger": linger, "batch_bytes_max": batch_bytes_max}
    async with Producer(fresh("gathering"), **options, send_timeout=60) as producer:
        run = Run(topic, sorted(await producer.queues(topic)), f"run{next(_runs)}")
        for step, what in steps:
            if step == "send":
                run.send(producer, *what)
            elif step == "batch":
                await run.batch(producer, *what)
            else:
                await asyncio.sleep(0.003)
        outcomes = await asyncio.gather(*[each.outcome for each in run.sent], return_exceptions=True)
    pairs = list(zip(run.sent, outcomes, strict=True))
    check_strangers(pairs)
    check_keys(pairs)
    check_order(pairs)
    await check_places(nameserver, topic, pairs)


def check_strangers(pairs) -> None:
    for sent, outcome in pairs:
        if sent.kind.name == "bad flag":
            assert isinstance(outcome, gantrymq.InvalidMessage)
        elif sent.kind.key is None:
            assert isinstance(outcome, SendResult), outcome
            assert not outcome.duplicate


def check_keys(pairs) -> None:
    by_key = defaultdict(list)
    for sent, outcome in pairs:
        if sent.kind.key is not None:
            by_key[sent.kind.key].append((sent.message.body, outcome))
    for each in by_key.values():
        stored = [body for body, outcome in each if isinstance(outcome, SendResult) and not outcome.duplicate]
        assert len(stored) == 1, each
        for body, outcome in each:
            if body == stored[0]:
                assert isinstance(outcome, SendResult)
            else:
                assert outcome.reason == "IDEMPOTENCY_CONFLICT"


def check_order(pairs) -> None:
    """Messages for one chosen queue lie there in the order of the calls; a repeat lies where it was first."""
    by_queue = defaultdict(list)
    for sent, outcome in pairs:
        if isinstance(outcome, SendResult) and not outcome.duplicate and sent.kind.name != "timed":
            if sent.queue is not None:
                by_queue[sent.queue].append(outcome.queue_offset)
                assert outcome.queue == sent.queue
            elif sent.kind.name == "sharded":
                by_queue[outcome.queue].append(outcome.queue_offset)
    for offsets in by_queue.values():
        assert offsets == sorted(set(offsets))


async def check_places(nameserver: str, topic: str, pairs) -> None:
    async with PullConsumer(fresh("audit"), nameservers=nameserver) as consumer:
        await consumer.queues(topic)
        for sent, outcome in pairs:
            if not isinstance(outcome, SendResult) or sent.kind.name == "timed":
                continue
            pulled = await consumer.pull(outcome.queue, outcome.queue_offset, max_messages=1, wait=10)
            (found,) = pulled.messages
            assert found.body == sent.message.body
            assert found.queue_offset == outcome.queue_offset
            assert found.message_id == outcome.message_id
            assert found.offset_message_id == outcome.offset_message_id
            assert found.properties.get(KEY) == (sent.message.properties or {}).get(KEY)
            assert outcome.duplicate or outcome.message_id == sent.message.unique_id
