"""Outcomes of sends for all answers of brokers, with brokers in this process."""

import asyncio
import logging

import pytest
from scripted_cluster import CLOSE, SILENT, STORED, Broker, Nameserver, cluster, eventually

import gantrymq
from gantry_link.serving.server import RemotingServer
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.messages.batch import decode_batch
from gantry_wire.messages.properties import parse_properties
from gantrymq import ConnectionFailed, Message, NoRoute, Producer, Refused, SendStatus, TimedOut
from gantrymq.connection.acl import ACCESS_KEY, SIGNATURE, Signer

pytestmark = pytest.mark.anyio
LONG = {"send_timeout": 60.0}


def unique_id(command):
    return parse_properties(command.ext["i"])["UNIQ_KEY"]


@pytest.mark.parametrize("outcome", [1, 2, 14, 16, 17, 1500, CLOSE])
async def test_a_temporary_failure_is_retried_on_another_broker_with_the_same_id(outcome):
    bad, good = Broker("a", outcome), Broker("b", STORED)
    async with (
        cluster(bad, good) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        results = [await producer.send(Message("T", b"%d" % n)) for n in range(4)]
        assert {result.queue.broker for result in results} == {"b"}
        assert len(good.sends) == 4
        assert bad.sends
        assert {unique_id(command) for command in bad.sends} <= {unique_id(command) for command in good.sends}


@pytest.mark.parametrize("outcome", [2, CLOSE])
async def test_messages_of_one_turn_leave_together_and_each_failed_one_is_retried_elsewhere(outcome):
    bad, good = Broker("a", outcome), Broker("b", STORED)
    async with (
        cluster(bad, good) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        await producer.send(Message("T", b"first"))
        sent = [Message("T", b"%d" % n, tag='"\u00e4\\') for n in range(40)]
        results = await asyncio.gather(*map(producer.send, sent))
        assert [result.message_id for result in results] == [message.unique_id for message in sent]
        assert {result.queue.broker for result in results} == {"b"}
        assert sorted(command.body for command in good.sends[-40:]) == sorted(
            message.body for message in sent
        )
        assert {parse_properties(command.ext["i"])["TAGS"] for command in good.sends[-40:]} == {sent[0].tag}


@pytest.mark.parametrize("code", [13, 29, 604])
async def test_a_permanent_refusal_is_raised_at_once_with_code_and_advice(code):
    broker = Broker("a", code)
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **LONG) as producer:
        with pytest.raises(Refused, match=f"sending to topic T .*code {code}: as the test wants") as refused:
            await producer.send(Message("T", b"x"))
        assert refused.value.code == code
        assert not refused.value.retryable
        assert len(broker.sends) == 1


async def test_tries_are_counted_and_the_last_error_is_raised():
    broker = Broker("a", 2)
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, retries=3, **LONG) as producer,
    ):
        with pytest.raises(Refused, match="overloaded"):
            await producer.send(Message("T", b"x"))
        assert len(broker.sends) == 4


async def test_after_go_away_the_broker_gets_another_connection():
    broker = Broker("a", 1500, STORED)
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        await producer.send(Message("T", b"x"))
        assert len(broker.sends) == 2
        assert len(broker.peers) == 2
        assert RequestCode.HEART_BEAT in broker.codes()[-1:]  # the new connection began with who we are


async def test_a_chosen_queue_gets_one_try():
    bad, good = Broker("a", 2), Broker("b")
    async with (
        cluster(bad, good) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        queue = next(queue for queue in await producer.queues("T") if queue.broker == "a")
        with pytest.raises(Refused):
            await producer.send(Message("T", b"x"), queue=queue)
        assert (len(bad.sends), len(good.sends)) == (1, 0)


async def test_a_send_without_an_answer_times_out_and_is_not_retried():
    broker = Broker("a", STORED, SILENT)
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver) as producer:
        await producer.send(Message("T", b"x"), timeout=60)  # now route and connection are there
        with pytest.raises(TimedOut, match="no answer within") as late:
            await producer.send(Message("T", b"x"), timeout=0.5)
        assert late.value.sent
        assert isinstance(late.value, TimeoutError)
        assert len(broker.sends) == 2


async def test_a_message_stored_with_less_durability_says_so_or_is_sent_again():
    broker = Broker("a", 10)
    async with cluster(broker) as (_, nameserver):
        async with Producer("g", nameservers=nameserver, **LONG) as producer:
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.FLUSH_DISK_TIMEOUT
        other = Broker("b")
        async with (
            cluster(broker, other) as (_, both),
            Producer("g", nameservers=both, retry_unless_ok=True, **LONG) as producer,
        ):
            results = [await producer.send(Message("T", b"x")) for _ in range(4)]
            assert {result.queue.broker for result in results} == {"b"}


@pytest.mark.parametrize("way", ["single", "batch"])
@pytest.mark.parametrize("second", [13, SILENT, CLOSE])
async def test_a_message_stored_with_less_durability_is_not_reported_as_failed_if_the_second_send_fails(
    second, way
):
    broker = Broker("a", 10, second)
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, retry_unless_ok=True, retries=1, send_timeout=1.5) as producer,
    ):
        if way == "single":
            result = await producer.send(Message("T", b"x"))
        else:
            (result,) = await producer.send_batch([Message("T", b"x")])
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert result.queue.queue_id == int(broker.sends[0].ext["e"])
        assert len(broker.sends) == 2


async def test_an_error_says_that_an_earlier_try_may_have_stored_the_message():
    heard, unreachable = Broker("a", CLOSE), Broker("b")
    async with cluster(heard, unreachable) as (_, nameserver):
        unreachable.address = "127.0.0.1:1"
        async with Producer("g", nameservers=nameserver, retries=1, **LONG) as producer:
            for _ in range(4):  # either broker comes first
                sends = len(heard.sends)
                with pytest.raises(ConnectionFailed) as failed:
                    await producer.send(Message("T", b"x"))
                assert len(heard.sends) == sends + 1
                assert failed.value.sent


@pytest.mark.parametrize("way", ["single", "batch"])
async def test_a_refusal_after_a_try_without_an_answer_leaves_it_open_whether_the_message_is_stored(way):
    broker = Broker("a", CLOSE, 13)
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **LONG) as producer:
        message = Message("T", b"x")
        sending = producer.send(message) if way == "single" else producer.send_batch([message])
        with pytest.raises(ConnectionFailed, match=r"code 13.* an earlier try got no answer") as failed:
            await sending
        assert failed.value.sent
        assert isinstance(failed.value.__cause__, Refused)


async def test_an_unknown_topic_is_created_by_its_first_message_or_refused():
    broker = Broker("a")
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **LONG) as producer:
        await producer.send(Message("New", b"x"))
        assert broker.sends[0].ext["c"] == "TBW102"
    async with (
        cluster(broker, creates=False) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        with pytest.raises(NoRoute, match=r"no nameserver knows topic New.* create it first"):
            await producer.send(Message("New", b"x"))


async def test_all_requests_are_signed():
    broker = Broker("a")
    keys = {"access_key": "me", "secret_key": "secret"}
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG, **keys) as producer,
    ):
        await producer.send(Message("T", b"one"))
        await producer.send_batch([Message("T", b"two"), Message("T", b"three")])
        await producer.send_oneway(Message("T", b"four"))
        await eventually(lambda: len(broker.sends) == 3)
        assert len(broker.raw) >= 4  # the heartbeat too
        for raw, body in broker.raw:
            fields = dict(raw)
            said = fields.pop(SIGNATURE)
            assert fields[ACCESS_KEY] == "me"
            assert Signer("me", "secret")(fields, body)[SIGNATURE] == said


async def test_heartbeats_come_first_and_unregister_last():
    broker = Broker("a")
    async with cluster(broker) as (_, nameserver):
        async with Producer("g", nameservers=nameserver, **LONG) as producer:
            await producer.send(Message("T", b"x"))
            assert RequestCode.HEART_BEAT in broker.codes()
        assert broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT
        assert broker.others[-1].ext["producerGroup"] == "g"


async def test_a_second_producer_of_a_group_is_refused_unless_it_is_another_client():
    async with cluster(Broker("a")) as (_, nameserver), Producer("g", nameservers=nameserver):
        with pytest.raises(
            gantrymq.ConfigurationError, match="group g already has a producer in this process"
        ):
            await Producer("g", nameservers=nameserver).start()
        async with Producer("g", nameservers=nameserver, instance_name="two"):
            pass


async def test_two_clusters_and_a_namespace_live_in_one_process():
    first, second = Broker("a"), Broker("a")
    async with (
        cluster(first) as (_, one),
        cluster(second, topics=["ns%T"], creates=False) as (_, two),
        Producer("g", nameservers=one, **LONG) as here,
        Producer("g", nameservers=two, namespace="ns", **LONG) as there,
    ):
        assert (await here.send(Message("T", b"x"))).queue.topic == "T"
        assert (await there.send(Message("T", b"x"))).queue.topic == "T"
        assert (first.sends[0].ext["b"], second.sends[0].ext["b"]) == ("T", "ns%T")
        assert second.sends[0].ext["a"] == "ns%g"


async def test_concurrent_sends_are_batched_and_each_gets_its_own_result():
    broker = Broker("a")
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, linger=0, **LONG) as producer,
    ):
        messages = [Message("T", b"%d" % n) for n in range(50)]
        results = await asyncio.gather(*map(producer.send, messages))
        assert len(broker.sends) == 1
        assert [item.body for item in decode_batch(broker.sends[0].body)] == [m.body for m in messages]
        assert [result.queue_offset for result in results] == list(range(7, 57))
        assert [result.message_id for result in results] == [message.unique_id for message in messages]
        await producer.send(Message("T", b"later", delay_level=1))
        assert broker.sends[-1].code == RequestCode.SEND_MESSAGE_V2


async def test_a_failed_batch_fails_every_send_in_it():
    async with (
        cluster(Broker("a", 13)) as (_, nameserver),
        Producer("g", nameservers=nameserver, linger=0.001) as producer,
    ):
        sent = [producer.send_soon(Message("T", b"x")) for _ in range(3)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Refused] * 3


async def test_a_batch_that_fails_in_the_middle_reports_the_stored_messages():
    broker = Broker("a", STORED, 13)
    sizes = {"message_bytes_max": 1000, "batch_bytes_max": 1000}
    async with (
        cluster(broker) as (_, nameserver),
        Producer("g", nameservers=nameserver, **sizes, **LONG) as producer,
    ):
        with pytest.raises(gantrymq.BatchIncomplete, match="2 of 5 messages were stored") as failed:
            await producer.send_batch([Message("T", bytes(300)) for _ in range(5)])
        incomplete = failed.value
        kinds = [gantrymq.SendResult, gantrymq.SendResult, Refused, Refused, gantrymq.NotSent]
        assert [type(each) for each in incomplete.results] == kinds
        assert (incomplete.stored, incomplete.not_stored, incomplete.unknown) == ([0, 1], [2, 3, 4], [])
        assert incomplete.code == 13
        broker.outcomes = [STORED]
        results = await producer.resume(incomplete)
        assert [result.message_id for result in results] == [
            message.unique_id for message in incomplete.messages
        ]
        assert results[:2] == incomplete.results[:2]
        assert len({result.queue for result in results}) == 1
        assert [len(decode_batch(send.body)) for send in broker.sends] == [2, 2, 2, 1]


async def test_a_batch_whose_answer_never_came_is_unknown_and_the_rest_not_sent():
    broker = Broker("a", STORED, SILENT)
    sizes = {"message_bytes_max": 1000, "batch_bytes_max": 1000}
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **sizes) as producer:
        with pytest.raises(
            gantrymq.BatchIncomplete, match=r"2 of 6 .* the outcome of 2 is unknown"
        ) as failed:
            await producer.send_batch([Message("T", bytes(300)) for _ in range(6)], timeout=1.5)
        assert (failed.value.stored, failed.value.unknown) == ([0, 1], [2, 3])
        assert failed.value.not_stored == [4, 5]


async def test_a_batch_with_keys_requests_each_result_and_works_with_brokers_that_have_none():
    broker = Broker("a")
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **LONG) as producer:
        keyed = [Message("T", b"x", properties={"__GANTRY_KEY": "k"}), Message("T", b"y")]
        results = await producer.send_batch(keyed)
        assert [(result.queue_offset, result.duplicate) for result in results] == [(7, False), (8, False)]
        await producer.send_batch([Message("T", b"x"), Message("T", b"y")])
        assert [send.ext.get("gantryPerItem") for send in broker.sends] == ["true", None]


@pytest.mark.parametrize("body", [b"not json", b"[]", b'[{"queueOffset":1}]'])
async def test_unreadable_item_results_are_refused(body):
    class Odd(Broker):
        def __call__(self, peer, frame):
            command = decode_command(frame)
            if command.code != RequestCode.SEND_BATCH_MESSAGE:
                super().__call__(peer, frame)
                return
            fields = {"msgId": "A,B", "queueId": "0", "queueOffset": "7"}
            peer.send(encode_response(0, command.opaque, fields, body))

    async with (
        cluster(Odd("a")) as (_, nameserver),
        Producer("g", nameservers=nameserver, retries=0) as producer,
    ):
        with pytest.raises(Refused, match=r"the answer (cannot be read|has . results for 2 messages)"):
            await producer.send_batch([Message("T", b"x", properties={"__GANTRY_KEY": "k"})] * 2)


async def test_hooks_see_which_message_of_a_batch_was_refused():
    seen = []

    class Hook:
        def before_send(self, context):
            pass

        def after_send(self, context):
            seen.append(([result and result.queue_offset for result in context.results], context.error))

    class Picky(Broker):
        def __call__(self, peer, frame):
            command = decode_command(frame)
            if command.code != RequestCode.SEND_BATCH_MESSAGE:
                super().__call__(peer, frame)
                return
            items = (
                b'[{"queueId":0,"queueOffset":5,"position":1},'
                b'{"code":13,"gantryCode":"IDEMPOTENCY_CONFLICT","remark":"no"}]'
            )
            fields = {"msgId": "A,", "queueId": "0", "queueOffset": "5"}
            peer.send(encode_response(0, command.opaque, fields, items))

    async with (
        cluster(Picky("a")) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        producer.add_hook(Hook())
        with pytest.raises(gantrymq.BatchIncomplete) as failed:
            await producer.send_batch([Message("T", b"x", properties={"__GANTRY_KEY": "k"})] * 2)
    assert seen == [([5, None], failed.value.results[1])]
    assert failed.value.results[1].reason == "IDEMPOTENCY_CONFLICT"


async def test_hooks_see_start_and_end_and_their_failures_change_nothing(caplog):
    seen = []

    class Hook:
        def before_send(self, context):
            seen.append(("before", context.message.body, context.broker))

        def after_send(self, context):
            seen.append(("after", context.result is not None, type(context.error)))
            raise RuntimeError("mine")

    broker = Broker("a", STORED, 13)
    async with cluster(broker) as (_, nameserver), Producer("g", nameservers=nameserver, **LONG) as producer:
        producer.add_hook(Hook())
        await producer.send(Message("T", b"x"))
        with pytest.raises(Refused), caplog.at_level(logging.ERROR, "gantrymq"):
            await producer.send(Message("T", b"y"))
    assert seen == [
        ("before", b"x", "a"),
        ("after", True, type(None)),
        ("before", b"y", "a"),
        ("after", False, Refused),
    ]
    assert "a hook failed" in caplog.text


async def test_closing_waits_for_outstanding_sends_and_refuses_later_ones():
    broker = Broker("a")
    async with cluster(broker) as (_, nameserver):
        producer = Producer("g", nameservers=nameserver, **LONG)
        with pytest.raises(gantrymq.NotRunning, match="async with"):
            await producer.send(Message("T", b"x"))
        await producer.start()
        sent = [producer.send_soon(Message("T", b"%d" % n)) for n in range(10)]
        await producer.close()
        assert all(future.done() and future.exception() is None for future in sent)
        with pytest.raises(gantrymq.NotRunning):
            await producer.send(Message("T", b"x"))
        await producer.close()


async def test_a_nameserver_that_is_down_is_named_and_found_when_it_is_there():
    async with Producer("g", nameservers="127.0.0.1:1", **LONG) as producer:
        with pytest.raises(gantrymq.ConnectionFailed, match="no nameserver answered the query for topic T"):
            await producer.send(Message("T", b"x"))


async def test_hooks_see_every_message_of_a_batch_and_one_way_messages():
    seen = []

    class Hook:
        def before_send(self, context):
            pass

        def after_send(self, context):
            bodies = [message.body for message in context.messages]
            seen.append((context.kind, bodies, [result.queue_offset for result in context.results]))

    async with (
        cluster(Broker("a")) as (_, nameserver),
        Producer("g", nameservers=nameserver, **LONG) as producer,
    ):
        producer.add_hook(Hook())
        await producer.send_batch([Message("T", b"x"), Message("T", b"y")])
        await producer.send_oneway(Message("T", b"z"))
    assert seen == [("batch", [b"x", b"y"], [7, 8]), ("oneway", [b"z"], [])]


async def test_sends_that_closing_abandons_end_with_an_error(monkeypatch):
    monkeypatch.setattr("gantrymq.producer.producer.CLOSE_SECONDS", 0.05)
    silent = Nameserver([])
    silent.is_silent = True
    server = RemotingServer(silent)
    address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    producer = Producer("g", nameservers=address, request_timeout=60.0, send_timeout=0.05)
    await producer.start()
    waiting = producer.send_soon(Message("T", b"x"), timeout=60)
    await producer.close()
    with pytest.raises(gantrymq.ConnectionFailed, match="was closed before the message could be sent"):
        await waiting
    await server.close()


async def test_thousands_of_topics_cost_only_their_own_queries():
    topics = [f"T{n}" for n in range(2000)]
    async with (
        cluster(Broker("a"), topics=topics) as (nameserver, address),
        Producer("g", nameservers=address, connect_timeout=60.0, request_timeout=60.0, **LONG) as producer,
    ):
        await asyncio.gather(*(producer.send(Message(topic, b"x")) for topic in topics))
        await asyncio.gather(*(producer.send(Message(topic, b"y")) for topic in topics))
        assert len(nameserver.asked) == 2000
