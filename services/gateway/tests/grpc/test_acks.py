"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: codes, and what the stores are asked for."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from gateway_grpc_consumers import Consumers, ack_request, caller_of, change_request, handle_of

from gateway.grpc.codes import Refused
from gateway.grpc.proto.enums import Code
from gateway.grpc.proto.receiving import AckMessageRequest
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio


async def received(consumers, *bodies: str, **fields):
    await consumers.put(*bodies)
    return await consumers.messages(**fields)


def codes(response) -> tuple[int, list[int]]:
    return response.status.code, [entry.status.code for entry in response.entries]


@pytest.mark.parametrize("is_slow", [False, True])
async def test_an_acknowledgement_has_the_same_answer_with_a_task_and_without(consumers, is_slow):
    message, other = await received(consumers, "a", "bb")
    if is_slow:
        consumers.gateway.routes.forget("orders")
    work = consumers.acks.ack(caller_of(), ack_request(handle_of(message)))
    assert inspect.iscoroutine(work) == is_slow
    response = await work
    assert codes(response) == (Code.OK, [Code.OK])
    assert response.entries[0].receipt_handle == handle_of(message)
    assert response.entries[0].message_id == "m0"
    assert (0, message.system_properties.queue_offset) in consumers.store.done
    assert codes(await consumers.ack(message)) == (Code.OK, [Code.OK])  # again
    consumers.store.expire()
    response = await consumers.ack(other)
    assert codes(response) == (Code.INVALID_RECEIPT_HANDLE, [Code.INVALID_RECEIPT_HANDLE])
    assert consumers.acks.messages == 3


async def test_each_entry_has_its_own_status(consumers):
    one, two, three = await received(consumers, "a", "bb", "ccc")
    assert codes(await consumers.ack(one, two)) == (Code.OK, [Code.OK, Code.OK])
    request = ack_request(handle_of(three), "nonsense")
    response = await consumers.acks.ack(caller_of(), request)
    assert codes(response) == (Code.MULTIPLE_RESULTS, [Code.OK, Code.INVALID_RECEIPT_HANDLE])
    response = await consumers.acks.ack(caller_of(), ack_request("", "x"))
    assert codes(response) == (Code.INVALID_RECEIPT_HANDLE, [Code.INVALID_RECEIPT_HANDLE] * 2)


async def test_a_handle_of_another_group_or_a_missing_topic_is_invalid(consumers):
    (message,) = await received(consumers, "a")
    for request in (
        ack_request(handle_of(message), group="g2"),
        ack_request(handle_of(message), topic="missing"),
        ack_request("nonsense"),
    ):
        response = await consumers.acks.ack(caller_of(), request)
        assert codes(response) == (Code.INVALID_RECEIPT_HANDLE, [Code.INVALID_RECEIPT_HANDLE])
    consumers.system.stores["broker-a"].refuse = StoreRefused(17, "no topic")
    assert codes(await consumers.ack(message))[0] == Code.INVALID_RECEIPT_HANDLE


async def test_a_broker_that_is_away_is_no_reason_to_forget_a_handle(consumers):
    (message,) = await received(consumers, "a")
    consumers.system.stores["broker-a"].away = PeerAway("broker-a", True, "no answer")
    assert codes(await consumers.ack(message)) == (Code.INTERNAL_SERVER_ERROR, [50001])
    assert (await consumers.change(message, 10_000)).status.code == Code.INTERNAL_SERVER_ERROR


async def test_calls_with_too_few_or_too_many_entries_are_refused(consumers):
    for handles in ((), ("x",) * 1025):
        with pytest.raises(Refused) as refused:
            await consumers.acks.ack(caller_of(), ack_request(*handles))
        assert refused.value.code == Code.BAD_REQUEST


async def test_illegal_names_are_refused(consumers):
    for topic, group, code in (("", "g", Code.ILLEGAL_TOPIC), ("t", "", Code.ILLEGAL_CONSUMER_GROUP)):
        request = AckMessageRequest()
        request.topic.name, request.group.name = topic, group
        with pytest.raises(Refused) as refused:
            consumers.acks.ack(caller_of(), request)
        assert refused.value.code == code


async def test_an_acknowledgement_whose_client_has_gone_is_carried_out(consumers):
    (message,) = await received(consumers, "a")
    gate = consumers.store.gate = asyncio.Event()
    work = consumers.acks.ack(caller_of(), ack_request(handle_of(message)))
    assert isinstance(work, asyncio.Future)
    work.cancel()
    gate.set()
    await asyncio.gather(*consumers.store.tasks)
    assert consumers.store.done


async def test_a_simple_consumer_moves_the_end_of_its_lease(consumers):
    (message,) = await received(consumers, "a")
    response = await consumers.change(message, 5)
    assert (response.status.code, response.receipt_handle) == (Code.OK, handle_of(message))
    assert not consumers.store.delays
    assert codes(await consumers.ack(message))[0] == Code.OK


async def test_a_simple_consumer_gives_a_message_back_at_once_with_no_time(consumers):
    (message,) = await received(consumers, "a")
    assert (await consumers.change(message, 0)).status.code == Code.OK
    assert consumers.store.delays == [0]
    (again,) = await consumers.messages()
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize(("ms", "delay_ms"), [(0, 1000), (5, 1000), (1000, 1000), (7_200_000, 7_200_000)])
async def test_a_push_consumer_gives_a_message_back(consumers, ms, delay_ms):
    (message,) = await received(consumers, "a")
    response = await consumers.change(message, ms, caller_of("push"))
    assert (response.status.code, response.receipt_handle) == (Code.OK, handle_of(message))
    assert consumers.store.delays == [delay_ms]
    response = await consumers.change(message, ms, caller_of("push"))
    assert response.status.code == Code.INVALID_RECEIPT_HANDLE


async def test_an_unknown_client_whose_leases_are_renewed_gives_a_message_back(consumers):
    consumers.alive.add("unknown")
    (message,) = await received(consumers, "a", caller=caller_of("unknown"), renew=True)
    assert (await consumers.change(message, 2000, caller_of("unknown"))).status.code == Code.OK
    assert consumers.store.delays == [2000]
    assert consumers.renewals.count == 0


@pytest.mark.parametrize("ms", [43_200_001, -1000])
async def test_a_refused_change_returns_the_handle(consumers, ms):
    request = change_request("h", ms)
    response = await consumers.acks.change_invisible(caller_of(), request)
    assert (response.status.code, response.receipt_handle) == (Code.ILLEGAL_INVISIBLE_TIME, "h")


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("orders", Code.INVALID_RECEIPT_HANDLE),
        ("missing", Code.INVALID_RECEIPT_HANDLE),
        ("", Code.ILLEGAL_TOPIC),
    ],
)
async def test_a_change_of_an_invalid_handle_returns_it(consumers, topic, code):
    response = await consumers.acks.change_invisible(caller_of(), change_request("h", 10_000, topic))
    assert (response.status.code, response.receipt_handle) == (code, "h")


async def test_a_message_is_forwarded_to_the_dead_letters(consumers):
    (message,) = await received(consumers, "a")
    assert (await consumers.forward(message)).status.code == Code.OK
    assert consumers.store.dead == {(0, 0)}
    assert list(consumers.store.reasons.values()) == ["forwarded by its consumer"]
    consumers.store.expire()
    (other,) = await received(consumers, "bb")
    consumers.store.expire()
    assert (await consumers.forward(other)).status.code == Code.INVALID_RECEIPT_HANDLE


async def test_a_rate_limit_holds_for_each_call(system):
    class Limits:
        wait_ms = 0

        async def take(self, client: str, topic: str, count: int) -> int:
            return self.wait_ms

    limits = Limits()
    consumers = Consumers(system, limits)
    (message,) = await received(consumers, "a")
    limits.wait_ms = 5
    response = await consumers.change(message, 0)
    assert (response.status.code, response.receipt_handle) == (Code.TOO_MANY_REQUESTS, handle_of(message))
    limits.wait_ms = 0
    assert codes(await consumers.ack(message))[0] == Code.OK
