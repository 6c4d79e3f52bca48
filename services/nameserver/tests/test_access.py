"""A nameserver with access control: its own services register, users see what they may, everybody else gets nothing."""

import asyncio
import json
import urllib.error

import pytest
from access_store import KEYS, introducer, key_file, serving_store, signed
from nameserver_process import PATIENT_SECONDS, client_of, launch, running
from registrations import holds

from gantry_chassis.machine.environment import machine
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.inner_http import InnerHttp
from gantry_link.connections.connection import connect
from gantry_link.errors import NotConnected
from gantry_wire.codes import RequestCode
from gantry_wire.headers.nameserver import BrokerIdentityHeader, RegisterBrokerHeader
from nameserver.handlers import COMMANDS

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


def broker(address, name="broker-a", broker_id=0, cluster="C"):
    return RegisterBrokerHeader(
        broker_name=name,
        broker_addr=address,
        cluster_name=cluster,
        ha_server_addr=address,
        broker_id=broker_id,
    )


def registered(address):
    return client_of(address, introduce=introducer())


async def answered(connection, code, user=None, fields=None, body=b""):
    sent = fields if user is None else signed(user, fields, body)
    answer = await connection.request(code, sent, body, PATIENT_SECONDS)
    return answer.code, answer.remark


async def until_known(connection):
    """Wait until the nameserver has read the users of a store."""
    async with asyncio.timeout(PATIENT_SECONDS):
        while (await answered(connection, RequestCode.GET_BROKER_CLUSTER_INFO, "root"))[0] == 14:
            await asyncio.sleep(0.05)


async def test_every_code_needs_a_user_and_users_do_what_their_policies_allow(tmp_path):
    settings = f"access_key_file={key_file(tmp_path)}", f"access_audit_file={tmp_path / 'audit'}"
    async with running(tmp_path / "ns", *settings) as node, serving_store() as (_, address):
        connection = await connect(node.address)
        for code in (*COMMANDS, 0, 999, 9003, 9055):
            assert (await answered(connection, code))[0] == 16
            assert (await answered(connection, code, fields={"inner": "1", "clusterName": "C"}))[0] == 16
        code, remark = await answered(connection, 106, "root")
        assert (code, "not read its users yet" in remark) == (14, True)
        async with registered(node) as store:
            await store.register_broker(broker(address), holds("A", "B"))
            await until_known(connection)
            assert await answered(connection, 105, "alice", {"topic": "A"}) == (0, None)
            refused = "User:alice has no permission to access Topic:B from 127.0.0.1, no matched policies."
            assert await answered(connection, 105, "alice", {"topic": "B"}) == (16, refused)
            assert (await answered(connection, 106, "alice"))[0] == 16
            assert (await answered(connection, 106, "reader"))[0] == 0
            for code, fields in (
                (RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"}),
                (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}),
                (RequestCode.UPDATE_NAMESRV_CONFIG, {}),
                (RequestCode.UNREGISTER_BROKER, broker(address).to_fields()),
            ):
                assert (await answered(connection, code, "reader", fields))[0] == 16
            assert (await answered(connection, 100, "root", {"namespace": "n", "key": "k", "value": "v"}))[
                0
            ] == 0
            assert (await answered(connection, 9003, "root"))[0] == 16
        connection.close()
        assert await node.stop() == 0
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    allowed = {(line["user"], line["request"]) for line in lines if line["decision"] == "allowed"}
    assert {("alice", "GET_ROUTEINFO_BY_TOPIC"), ("root", "PUT_KV_CONFIG")} <= allowed
    assert "alicealice" not in (tmp_path / "audit").read_text()


async def test_open_routes_are_for_everybody_and_nothing_else_is(tmp_path):
    settings = f"access_key_file={key_file(tmp_path)}", "access_open_routes=true"
    async with running(tmp_path / "ns", *settings) as node, serving_store() as (_, address):
        connection = await connect(node.address)
        async with registered(node) as store:
            await store.register_broker(broker(address), holds("A", "B"))
            await until_known(connection)
            topic = {"topic": "A"}
            assert await answered(connection, 105, None, topic) == (0, None)
            wrong = {**topic, "AccessKey": "alice", "Signature": "AAAA"}
            assert await answered(connection, 105, None, wrong) == (0, None)
            assert (await answered(connection, 105, None, {"topic": "C"}))[0] == 17
            for code in sorted(set(COMMANDS) - {105}):
                assert (await answered(connection, code, None, topic))[0] == 16
        connection.close()


async def test_a_broker_registers_with_the_keys_or_with_the_right_on_its_cluster(tmp_path):
    async with (
        running(tmp_path / "ns", f"access_key_file={key_file(tmp_path)}") as node,
        serving_store() as (_, address),
        registered(node) as store,
    ):
        await store.register_broker(broker(address), holds("A", "B"))
        connection = await connect(node.address)
        await until_known(connection)
        identity = BrokerIdentityHeader(
            broker_name="broker-z", broker_addr="127.0.0.1:9", cluster_name="C", broker_id=0
        )
        heartbeat = identity.to_fields() | {"heartbeatTimeoutMills": "60000"}
        assert (await answered(connection, RequestCode.BROKER_HEARTBEAT, fields=heartbeat))[0] == 16
        assert (await answered(connection, RequestCode.BROKER_HEARTBEAT, "alice", heartbeat))[0] == 16
        other = heartbeat | {"clusterName": "D"}
        assert (await answered(connection, RequestCode.BROKER_HEARTBEAT, "broker", other))[0] == 16
        assert (await answered(connection, RequestCode.BROKER_HEARTBEAT, "broker", heartbeat))[0] == 0
        connection.close()


async def test_a_change_answers_the_held_request_and_the_last_state_stays_without_stores(tmp_path):
    settings = f"access_key_file={key_file(tmp_path)}"
    async with running(tmp_path / "ns", settings) as node:
        connection = await connect(node.address)
        async with registered(node) as client:
            async with serving_store() as (store, address):
                await client.register_broker(broker(address), holds("A", "B"))
                await until_known(connection)
                assert (await answered(connection, 105, "alice", {"topic": "A"}))[0] == 0
                async with asyncio.timeout(PATIENT_SECONDS):
                    while not store.held:
                        await asyncio.sleep(0.01)
                store.take(store.table.deletions("reader", 5))
                async with asyncio.timeout(PATIENT_SECONDS):
                    while (await answered(connection, 106, "reader"))[0] == 0:
                        await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert (await answered(connection, 105, "alice", {"topic": "A"}))[0] == 0
            assert (await answered(connection, 106, "reader"))[1] == "check signature failed."
        with pytest.raises(urllib.error.HTTPError, match="401"):
            await node.get("/metrics")
        proof = InnerHttp(KEYS.inner, machine().wall_ms).header("GET /metrics")
        assert b"access_complete 1.0" in await node.get("/metrics", authorization=proof.decode())
        connection.close()


async def test_notices_of_a_changed_master_go_over_introduced_connections(tmp_path):
    settings = f"access_key_file={key_file(tmp_path)}", "notify_min_broker_id_changed=true"
    async with (
        running(tmp_path / "ns", *settings) as node,
        serving_store() as (store, address),
        registered(node) as client,
        registered(node) as master,
    ):
        await client.register_broker(broker(address, broker_id=1), holds("A", "B"))
        await master.register_broker(broker("127.0.0.1:9"), holds("A", "B"))
        async with asyncio.timeout(PATIENT_SECONDS):
            while not store.pushed:
                await asyncio.sleep(0.02)
        assert store.pushed[0] == ("nameserver", RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)


async def test_a_service_with_other_keys_does_not_register(tmp_path):
    async with (
        running(tmp_path / "ns", f"access_key_file={key_file(tmp_path)}") as node,
        client_of(node, introduce=introducer(ClusterKeys({"k1": bytes(32)}))) as stranger,
    ):
        (answer,) = (await stranger.register_broker(broker("127.0.0.1:9"), holds("A", "B"))).values()
        assert isinstance(answer, NotConnected)
        assert "does not have the keys of this cluster" in str(answer)
    assert KEYS.inner[0].hex() not in "".join(node.lines)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("listen=0.0.0.0",), "insecure=true"),
        (("access_key_file=/nowhere/keys",), "access_key_file"),
    ],
)
async def test_a_start_that_would_let_everybody_in_is_refused(tmp_path, settings, words):
    process = await launch(tmp_path, *settings)
    _, shown = await asyncio.wait_for(process.communicate(), PATIENT_SECONDS)
    assert process.returncode == 2
    assert words in shown.decode()


async def test_an_open_address_is_served_if_that_is_accepted_and_each_start_says_it(tmp_path):
    async with running(tmp_path, "listen=0.0.0.0", "insecure=true") as node:
        assert any("no access control" in line for line in node.lines)
