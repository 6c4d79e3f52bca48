"""Answers of a transaction producer to checks of a broker in this process."""

import asyncio

import pytest
from scripted_cluster import Broker, cluster, eventually

from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import EndTransactionHeader
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties, parse_properties
from gantry_wire.records.message_record import build_record
from gantrymq import Message, Refused, TransactionProducer, TransactionState

pytestmark = pytest.mark.anyio
HOST = pack_host("10.0.0.1", 10911)
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Listener:
    """Says what the argument, or the body of the message, tells it to."""

    def __init__(self):
        self.checked = []

    async def execute_local_transaction(self, message, argument):
        return argument

    def check_local_transaction(self, message):
        self.checked.append((message.topic, message.body, message.transaction_id))
        if message.body == b"raise":
            raise RuntimeError("no database")
        return TransactionState(message.body.decode()) if message.body != b"nonsense" else "maybe"


def decisions(broker):
    return [c.read(EndTransactionHeader) for c in broker.others if c.code == RequestCode.END_TRANSACTION]


def ask(broker, body, group="g"):
    properties = format_properties({"PGROUP": group, "UNIQ_KEY": "U1", "TRAN_MSG": "true"})
    record = build_record(b"T", 0, 0, 0, body, properties, 0, 4, 1, HOST, 1, HOST)
    fields = {"tranStateTableOffset": "5", "commitLogOffset": "77", "msgId": "U1", "transactionId": "U1"}
    broker.push(RequestCode.CHECK_TRANSACTION_STATE, fields, record)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (TransactionState.COMMIT_MESSAGE, COMMIT),
        (TransactionState.ROLLBACK_MESSAGE, ROLLBACK),
        (TransactionState.UNKNOW, UNKNOWN),
        ("nonsense", UNKNOWN),
    ],
)
async def test_the_decision_names_the_half(state, kind):
    broker = Broker("a")
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", Listener(), nameservers=nameserver) as producer,
    ):
        result = await producer.send_in_transaction(Message("T", b"x"), state, timeout=60)
        half = broker.sends[0].ext
        assert int(half["f"]) & 4
        properties = parse_properties(half["i"])
        assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "g")
        await eventually(lambda: decisions(broker))
        (said,) = decisions(broker)
        assert (said.commit_or_rollback, said.tran_state_table_offset, said.commit_log_offset) == (kind, 7, 0)
        assert (said.msg_id, said.producer_group, said.from_transaction_check) == (
            result.result.message_id,
            "g",
            False,
        )


async def test_a_half_without_a_known_place_runs_no_transaction():
    ran, broker = [], Broker("a")
    broker.message_id = "not an id"
    listener = Listener()
    listener.execute_local_transaction = lambda *_: ran.append(1)
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", listener, nameservers=nameserver) as producer,
    ):
        with pytest.raises(Refused, match=r"sending a half to T.*cannot be read"):
            await producer.send_in_transaction(
                Message("T", b"x"), TransactionState.COMMIT_MESSAGE, timeout=60
            )
    assert not ran
    assert not decisions(broker)


async def test_a_broker_lost_during_the_transaction_does_not_change_its_state():
    broker, listener = Broker("a"), Listener()
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", listener, nameservers=nameserver) as producer,
    ):

        async def execute(message, argument):
            producer._sender.instance.routing._brokers = {}  # as after a poll that no longer finds its master
            return argument

        listener.execute_local_transaction = execute
        ended = await producer.send_in_transaction(Message("T", b"x"), TransactionState.COMMIT_MESSAGE)
        assert ended.state is TransactionState.COMMIT_MESSAGE
        await eventually(lambda: decisions(broker))


async def test_a_refused_half_runs_no_transaction():
    listener, broker = Listener(), Broker("a", 13)
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", listener, nameservers=nameserver) as producer,
    ):
        with pytest.raises(Refused):
            await producer.send_in_transaction(
                Message("T", b"x"), TransactionState.COMMIT_MESSAGE, timeout=60
            )
        assert not decisions(broker)


async def test_a_half_with_less_durability_is_rolled_back():
    broker = Broker("a", 10)
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", Listener(), nameservers=nameserver) as producer,
    ):
        result = await producer.send_in_transaction(
            Message("T", b"x"), TransactionState.COMMIT_MESSAGE, timeout=60
        )
        assert result.state is TransactionState.ROLLBACK_MESSAGE
        await eventually(lambda: decisions(broker))
        assert decisions(broker)[0].commit_or_rollback == ROLLBACK


async def test_the_listener_answers_checks_of_brokers():
    listener, broker = Listener(), Broker("a")
    async with (
        cluster(broker) as (_, nameserver),
        TransactionProducer("g", listener, nameservers=nameserver) as producer,
    ):
        await producer.send(Message("T", b"x"), timeout=60)
        for body in (b"COMMIT_MESSAGE", b"ROLLBACK_MESSAGE", b"raise", b"nonsense"):
            ask(broker, body)
        ask(broker, b"COMMIT_MESSAGE", group="another")
        await eventually(lambda: len(decisions(broker)) == 4)
        await asyncio.sleep(0)
        said = decisions(broker)
        assert sorted(one.commit_or_rollback for one in said) == [UNKNOWN, UNKNOWN, COMMIT, ROLLBACK]
        assert all(
            (one.from_transaction_check, one.commit_log_offset, one.msg_id) == (True, 77, "U1")
            for one in said
        )
        assert ("T", b"COMMIT_MESSAGE", "U1") in listener.checked
