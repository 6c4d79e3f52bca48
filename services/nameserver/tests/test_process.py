"""A nameserver process on free ports, addressed in frames."""

import asyncio
import contextlib
import os
import signal
import sys

import pytest
from nameserver_process import PATIENT_SECONDS, SOURCES, client_of, launch, running
from registrations import holds

from gantry_link.connections.connection import connect
from gantry_link.errors import BrokerRefused
from gantry_wire.headers.nameserver import BrokerIdentityHeader, RegisterBrokerHeader

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


def broker(name="broker-a", address="10.0.0.1:10911", **more):
    return RegisterBrokerHeader(
        broker_name=name,
        broker_addr=address,
        cluster_name="C",
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        **more,
    )


async def eventually_unknown(client, topic):
    async with asyncio.timeout(PATIENT_SECONDS):
        while True:
            try:
                await client.route(topic)
            except BrokerRefused as refused:
                if refused.code != 17:
                    raise
                return
            await asyncio.sleep(0.05)


async def test_register_route_and_unregister(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client:
        await client.register_broker(broker(compressed=True), holds("A", "B"))
        assert (await client.route("A")).broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
        assert (await client.cluster_info()).cluster_addr_table == {"C": ["broker-a"]}
        await client.unregister_broker(
            BrokerIdentityHeader(
                broker_name="broker-a", broker_addr="10.0.0.1:10911", cluster_name="C", broker_id=0
            )
        )
        await eventually_unknown(client, "A")


async def test_a_broker_is_removed_as_soon_as_its_connection_closes(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client:
        async with client_of(node) as dying:
            await dying.register_broker(broker(), holds("A", "B"))
            await client.route("A")
        await eventually_unknown(client, "A")


async def test_no_one_takes_the_place_of_a_connected_broker(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client, client_of(node) as other:
        await client.register_broker(broker(), holds("A", "B"))
        elsewhere = broker(address="10.0.0.9:10911", heartbeat_timeout_millis=600_000)
        (answer,) = (await other.register_broker(elsewhere, holds("A", "B", "C"))).values()
        assert isinstance(answer, BrokerRefused)
        assert "is alive at 10.0.0.1:10911" in str(answer)
        assert (await client.route("A")).broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}


async def test_a_silent_broker_expires(tmp_path):
    async with (
        running(tmp_path, "scan_not_active_broker_interval=50") as node,
        client_of(node) as client,
        client_of(node) as silent,
    ):
        async with asyncio.timeout(PATIENT_SECONDS):
            while True:  # on a busy machine it may expire before the request
                await silent.register_broker(broker(heartbeat_timeout_millis=500), holds("A", "B"))
                with contextlib.suppress(BrokerRefused):
                    await client.route("A")
                    break
        await eventually_unknown(client, "A")


async def test_values_and_settings_survive_a_restart_and_kill(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client:
        await client.kv_put("ORDER_TOPIC_CONFIG", "orders", "broker-a:8;broker-b:8")
        await client.update_config({"orderMessageEnable": "true"})
        await node.stop(signal.SIGKILL)
    async with running(tmp_path) as node, client_of(node) as client:
        assert await client.kv_get("ORDER_TOPIC_CONFIG", "orders") == "broker-a:8;broker-b:8"
        assert (await client.configs())[node.address]["orderMessageEnable"] == "true"


async def test_a_route_is_found_while_one_of_two_nameservers_lives(tmp_path):
    async with (
        running(tmp_path / "1") as first,
        running(tmp_path / "2") as second,
        client_of(first, second) as client,
    ):
        answers = await client.register_broker(broker(), holds("A", "B"))
        assert set(answers) == {first.address, second.address}
        await first.stop(signal.SIGKILL)
        for _ in range(3):
            assert (await client.route("A")).queue_datas[0].broker_name == "broker-a"


async def test_a_route_is_found_soon_while_the_first_of_two_nameservers_hangs(tmp_path):
    async with (
        running(tmp_path / "1") as first,
        running(tmp_path / "2") as second,
        client_of(first, second, timeout_seconds=1000) as client,
    ):
        client._first = 0
        await client.register_broker(broker(), holds("A", "B"))
        first.process.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENT_SECONDS):  # a fraction of one timeout
                for _ in range(20):
                    assert (await client.route("A")).queue_datas[0].broker_name == "broker-a"
                await asyncio.gather(*(client.topics() for _ in range(20)))
        finally:
            first.process.send_signal(signal.SIGCONT)


async def test_a_restarted_nameserver_without_registrations_hides_no_route(tmp_path):
    async with (
        running(tmp_path / "1") as knowing,
        running(tmp_path / "2") as empty,
        client_of(knowing) as registering,
        client_of(empty, knowing) as client,
    ):
        await registering.register_broker(broker(), holds("A", "B"))
        for _ in range(4):
            await client.route("A")


async def test_a_bad_frame_closes_only_its_own_connection(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client:
        await client.topics()
        for garbage in (
            b"\xff\xff\xff\xff" + bytes(20),
            b"\x00\x00\x00\x08\x00\x00\x00\x04null",
            b"GET / HTTP/1.0\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
            writer.write(garbage)
            assert await asyncio.wait_for(reader.read(), PATIENT_SECONDS) == b""
            writer.close()
        connection = await connect(node.address)
        answer = await connection.request(9999)
        assert (answer.code, answer.remark) == (3, " request type 9999 not supported")
        connection.close()
        assert await client.topics() == []


async def test_health_and_metrics(tmp_path):
    async with running(tmp_path) as node, client_of(node) as client:
        await client.register_broker(broker(), holds("A", "B"))
        assert b'"ready":true' in await node.get("/health/ready")
        figures = (await node.get("/metrics")).decode()
        assert "nameserver_topics 2.0" in figures
        assert 'nameserver_requests_total{code="REGISTER_BROKER"} 1.0' in figures
        assert await node.stop() == 0


async def test_a_failed_start_prints_one_line_and_exits_with_2(tmp_path):
    async with running(tmp_path / "1") as node:
        for settings, message in (
            ((tmp_path / "1",), "is in use by another nameserver"),
            ((tmp_path / "2", f"port={node.port}"), "cannot listen on"),
            ((tmp_path / "2", f"http_port={node.http_port}"), "cannot listen on"),
            ((tmp_path / "2", "nonsense=1"), "unknown setting 'nonsense'"),
            (("/proc/nowhere",), "cannot write to"),
        ):
            process = await launch(*settings)
            said = (await asyncio.wait_for(process.stderr.read(), PATIENT_SECONDS)).decode()
            assert await process.wait() == 2
            assert said.startswith("nameserver: ")
            assert message in said
            assert said.count("\n") == 1


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=12345\nserverWorkerThreads=8\n")
    return path


async def test_p_prints_the_settings(conf):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nameserver",
        "-c",
        str(conf),
        "-p",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENT_SECONDS)
    assert b"listenPort=12345\n" in out
    assert b"orderMessageEnable=false\n" in out
