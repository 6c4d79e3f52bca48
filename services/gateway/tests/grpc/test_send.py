"""SendMessage and RecallMessage over in-memory stores."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from gateway_grpc_peers import caller
from gateway_grpc_producers import Producers, plain
from gateway_memory import MemoryLimits

from gantry_wire.records.message_record import decode_record
from gateway.grpc.codes import Refused, code_of
from gateway.grpc.messages.accepted_types import EVERY_TYPE
from gateway.grpc.producing.send import takes
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import Code, MessageType
from gateway.grpc.proto.sending import RecallMessageRequest, SendMessageRequest
from gateway.grpc.proto.timestamp import timestamp
from gateway.http.problems import Problem
from gateway.ports.stores import PeerAway, StoreRefused, TopicSettings

pytestmark = pytest.mark.anyio


def records(system, broker="broker-a"):
    return [decode_record(one) for one in system.stores[broker].by_position.values()]


def typed(system, kind):
    for store in system.stores.values():
        store.kept_topics["orders"] = TopicSettings("orders", 4, 4, 6, kind)


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_message_is_stored_with_the_clients_id(system, path):
    answer = await getattr(Producers(system), path)(plain())
    assert answer.status.code == Code.OK
    (entry,) = answer.entries
    assert (entry.status.code, entry.message_id, entry.offset) == (Code.OK, "01AB", 0)
    assert (entry.transaction_id, entry.recall_handle) == ("", "")
    (record,) = records(system)
    assert (record.body, record.property_map()["UNIQ_KEY"]) == (b"hi", "01AB")


async def test_both_paths_answer_alike(system):
    kinds = [
        {},
        {"message_group": "g"},
        {"message_type": MessageType.TRANSACTION},
        {"delivery_timestamp": timestamp(system.clocks.ms + 60_000)},
        {"delivery_timestamp": timestamp(system.clocks.ms - 60_000)},
        {"message_type": MessageType.TRANSACTION, "message_group": "g"},
    ]
    for kind in kinds:
        fast, slow = Producers(system), Producers(system, MemoryLimits())
        answers = [await fast.send_fast(plain(**kind)), await slow.send(plain(**kind))]
        for answer in answers:
            answer.entries[0].offset = 0
        assert answers[0] == answers[1], kind
        assert fast.bound == slow.bound
        one, other = records(system)[-2:]
        assert one.property_map() == other.property_map()
        assert one.body == other.body
        assert fast.sends.messages == slow.sends.messages == 1


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_refusal_of_the_store_is_the_status_of_the_entry_and_of_the_call(system, path):
    parts = Producers(system)
    await parts.types.get("orders")
    system.stores["broker-a"].refuse = StoreRefused(14, "the disk is full", "DISK_FULL")
    answer = await getattr(parts, path)(plain())
    (entry,) = answer.entries
    assert answer.status == entry.status
    assert (answer.status.code, entry.message_id) == (Code.INTERNAL_SERVER_ERROR, "01AB")
    assert parts.sends.messages == 0


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_lost_answer_is_unknown_and_no_success(system, path):
    parts = Producers(system)
    await parts.types.get("orders")
    system.stores["broker-a"].away = PeerAway("broker-a", True, "no answer")
    answer = await getattr(parts, path)(plain())
    assert answer.entries[0].status.code == answer.status.code == Code.PROXY_TIMEOUT


async def test_a_group_goes_to_the_queue_of_its_sharding_key_over_http(system, client):
    parts = Producers(system)
    for key in ("g", "order-1", "groupA", "x"):
        body = {"messages": [{"body": "hi", "shardingKey": key}]}
        await client.post("/v1/topics/orders/messages", json=body)
        await parts.send(plain(message_group=key))
        await parts.send_fast(plain(message_group=key))
        over_http, slow, fast = records(system)[-3:]
        assert over_http.queue_id == slow.queue_id == fast.queue_id


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_repeat_with_an_idempotency_key_is_stored_once_over_both_protocols(system, client, path):
    producers, message = Producers(system), plain()
    message.user_properties["__GANTRY_KEY"] = "order-7"
    first = await getattr(producers, path)(message)
    assert await getattr(producers, path)(message) == first
    body = {"messages": [{"body": "hi", "idempotencyKey": "order-7"}]}
    (result,) = (await client.post("/v1/topics/orders/messages", json=body)).json()["results"]
    assert (result["duplicate"], result["messageId"]) == (True, "01AB")
    assert len(records(system)) == 1
    message.body = b"other"
    (entry,) = (await getattr(producers, path)(message)).entries
    assert entry.status.code == Code.PRECONDITION_FAILED


async def test_a_repeat_without_one_is_stored_again(system):
    producers = Producers(system)
    await producers.send(plain())
    await producers.send(plain())
    assert len(records(system)) == 2


async def test_several_messages_have_results_in_their_order(system):
    typed(system, "")
    parts = Producers(system)
    sent = [plain(message_id=f"M{n}", message_group=f"g{n}") for n in range(8)]
    answer = await parts.send(*sent)
    assert answer.status.code == Code.OK
    assert [entry.message_id for entry in answer.entries] == [f"M{n}" for n in range(8)]
    assert parts.sends.messages == len(records(system)) == 8


async def test_different_results_are_said_for_the_call(pair):
    parts = Producers(pair)
    await parts.routes.get("orders")
    pair.stores["broker-b"].refuse = StoreRefused(14, "the disk is full", "DISK_FULL")
    answer = await parts.send(*[plain(message_id=f"M{n}", message_group=f"g{n}") for n in range(16)])
    assert answer.status.code == Code.MULTIPLE_RESULTS
    assert {entry.status.code for entry in answer.entries} == {Code.OK, Code.INTERNAL_SERVER_ERROR}


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([], Code.MESSAGE_CORRUPTED),
        ([plain(), plain("other")], Code.MESSAGE_CORRUPTED),
        ([plain("SCHEDULE_TOPIC_XXXX")], Code.ILLEGAL_TOPIC),
        ([plain(message_id="")], Code.ILLEGAL_MESSAGE_ID),
    ],
)
async def test_a_request_that_cannot_be_sent_stores_nothing(system, messages, code):
    with pytest.raises(Refused) as refused:
        await Producers(system).send(*messages)
    assert refused.value.code == code
    assert records(system) == []


async def test_a_missing_topic_is_created_only_where_the_setting_says_so(system):
    with pytest.raises(Problem) as problem:
        await Producers(system).send(plain("new"))
    assert code_of(problem.value) == Code.TOPIC_NOT_FOUND

    async def create(topic: str) -> None:
        system.add_topic(topic)

    assert (await Producers(system, None, create).send(plain("new"))).status.code == Code.OK


async def test_a_rate_limit_counts_the_messages_of_an_address(system):
    limits = MemoryLimits()
    parts = Producers(system, limits)
    await parts.send(plain(), plain(message_id="02"))
    assert limits.taken == [("10.0.0.7", "orders", 2)]
    limits.wait_ms = 50
    with pytest.raises(Problem) as problem:
        await parts.send(plain())
    assert code_of(problem.value) == Code.TOO_MANY_REQUESTS


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_type_that_the_topic_does_not_take_is_refused(system, path):
    typed(system, "FIFO")
    parts = Producers(system)
    assert (await getattr(parts, path)(plain(message_group="g"))).status.code == Code.OK
    with pytest.raises(Refused) as refused:
        await getattr(parts, path)(plain())
    assert refused.value.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    with pytest.raises(Refused):
        await parts.send(plain(message_group="g"), plain(message_id="02"))
    assert len(records(system)) == 1


def test_which_types_a_topic_takes():
    for kind in EVERY_TYPE:
        assert takes("t", "", kind)
        assert takes("t", "MIXED", kind)
        assert takes("t", kind.name, kind)
        assert takes("%RETRY%g", "DELAY", kind)
        assert takes("t", "NORMAL", kind) == (kind == MessageType.NORMAL)


async def test_a_cancelled_call_changes_nothing_for_the_message(system):
    parts = Producers(system)
    await parts.types.get("orders")
    answer = parts.sends.send(caller(), SendMessageRequest(messages=[plain()]))
    answer.cancel()
    await parts.send(plain(message_id="02"))
    assert [one.property_map()["UNIQ_KEY"] for one in records(system)] == ["01AB", "02"]
    assert parts.sends.messages == 2


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_transaction_is_a_half_of_the_topics_producers(system, path):
    parts = Producers(system)
    message = plain(
        message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=duration(60_000)
    )
    (entry,) = (await getattr(parts, path)(message)).entries
    assert entry.transaction_id == "broker-a.01AB"
    ((_, half),) = system.transactions.halves().items()
    named = half.property_map()
    assert (named["PGROUP"], named["CHECK_IMMUNITY_TIME_IN_SECONDS"]) == ("orders", "60")
    assert parts.bound == [("c1", "orders")]


# Recalls


async def delayed(parts, system, **fields) -> str:
    due_ms = system.clocks.ms + 60_000
    answer = await parts.send(plain(delivery_timestamp=timestamp(due_ms), **fields))
    (entry,) = answer.entries
    system.schedulers.one.add(entry.message_id, deliver_at_ms=due_ms)
    return entry.recall_handle


def request(handle: str, topic: str = "orders") -> RecallMessageRequest:
    return RecallMessageRequest(topic=Resource(name=topic), recall_handle=handle)


async def test_a_recalled_message_is_cancelled(system):
    parts = Producers(system)
    handle = await delayed(parts, system)
    due_ms = system.clocks.ms + 60_000
    assert handle == urlsafe_b64encode(f"v1 orders broker-a {due_ms} 01AB".encode()).decode()
    answer = await parts.recalls.recall(caller(), request(handle))
    assert (answer.status.code, answer.message_id) == (Code.OK, "01AB")
    ((name, order),) = [call for call in system.schedulers.one.calls if call[0] == "cancel"]
    assert (name, order.id, order.broker, order.topic) == ("cancel", "01AB", "broker-a", "orders")
    with pytest.raises(Problem) as problem:  # it does not wait any more
        await parts.recalls.recall(caller(), request(handle))
    assert code_of(problem.value) == Code.PRECONDITION_FAILED


async def test_a_message_that_is_due_at_once_has_no_handle(system):
    answer = await Producers(system).send(plain(delivery_timestamp=timestamp(system.clocks.ms - 1)))
    assert answer.entries[0].recall_handle == ""


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "no handle",
        urlsafe_b64encode(b"v2 orders broker-a 99999999999999 01AB").decode(),
        urlsafe_b64encode(b"v1 other broker-a 99999999999999 01AB").decode(),
        urlsafe_b64encode(b"v1 orders nobody 99999999999999 01AB").decode(),
        urlsafe_b64encode(b"v1 orders broker-a 1 01AB").decode(),
    ],
)
async def test_an_unusable_handle_has_the_code_of_rocketmqs_proxy(system, handle):
    with pytest.raises(Refused) as refused:
        await Producers(system).recalls.recall(caller(), request(handle))
    assert refused.value.code == Code.INTERNAL_SERVER_ERROR
    assert system.schedulers.one.calls == []


async def test_a_message_that_no_broker_has_is_not_found(system):
    handle = urlsafe_b64encode(b"v1 orders broker-a 99999999999999 NONE").decode()
    with pytest.raises(Problem) as problem:
        await Producers(system).recalls.recall(caller(), request(handle))
    assert code_of(problem.value) == Code.NOT_FOUND


@pytest.mark.parametrize(("topic", "code"), [("none", Code.TOPIC_NOT_FOUND), ("a b", Code.ILLEGAL_TOPIC)])
async def test_a_recall_of_no_topic(system, topic, code):
    with pytest.raises((Problem, Refused)) as refused:
        await Producers(system).recalls.recall(caller(), request("x", topic))
    error = refused.value
    assert (error.code if isinstance(error, Refused) else code_of(error)) == code


async def test_a_topic_of_another_type_has_nothing_to_recall(system):
    typed(system, "NORMAL")
    with pytest.raises(Refused) as refused:
        await Producers(system).recalls.recall(caller(), request("x"))
    assert refused.value.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
