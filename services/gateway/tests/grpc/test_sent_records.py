"""What a send of gRPC leaves in the log: the client's time and the flag of a compressed body, alone and beside other messages."""

from __future__ import annotations

import gzip

import pytest
from gateway_grpc_producers import Producers, plain

from gantry_wire.records.message_record import SYS_COMPRESSED, decode_record
from gateway.grpc.proto.enums import Code, Encoding
from gateway.grpc.proto.timestamp import timestamp

pytestmark = pytest.mark.anyio


def records(system):
    stored = (decode_record(one) for one in system.stores["broker-a"].by_position.values())
    return {record.property_map()["UNIQ_KEY"]: record for record in stored}


@pytest.mark.parametrize("path", ["send", "send_fast"])
async def test_a_record_has_the_clients_time_or_that_of_the_send(system, path):
    for message in (plain(message_id="timed", born_timestamp=timestamp(77_123)), plain(message_id="now")):
        await getattr(Producers(system), path)(message)
    found = records(system)
    assert found["timed"].born_timestamp == 77_123
    assert found["now"].born_timestamp == system.clocks.ms


async def test_a_compressed_message_is_stored_alone_and_the_others_together(system):
    packed = plain(message_id="packed", body_encoding=Encoding.GZIP, born_timestamp=timestamp(5))
    packed.body = gzip.compress(b"hello")
    others = [plain(message_id=name, born_timestamp=timestamp(ms)) for name, ms in (("a", 1), ("b", 2))]
    answer = await Producers(system).send(others[0], packed, others[1])
    assert [entry.message_id for entry in answer.entries] == ["a", "packed", "b"]
    assert answer.status.code == Code.OK
    found = records(system)
    assert {name: record.sys_flag for name, record in found.items()} == {
        "a": 0,
        "b": 0,
        "packed": SYS_COMPRESSED,
    }
    assert {name: record.born_timestamp for name, record in found.items()} == {"a": 1, "b": 1, "packed": 5}
    calls = [call for call in system.stores["broker-a"].calls if call.startswith("send")]
    assert sorted(calls) == ["send", "send_batch"]


async def test_http_reads_a_compressed_message(system, client):
    packed = plain(body_encoding=Encoding.GZIP, message_group="g")
    packed.body = gzip.compress(b"hello")
    await Producers(system).send(packed)
    ((_, queue_id),) = system.stores["broker-a"].queues
    pulled = await client.get(f"/v1/topics/orders/queues/broker-a/{queue_id}/messages")
    (shown,) = pulled.json()["messages"]
    assert (shown["body"], shown["shardingKey"]) == ("hello", "g")
