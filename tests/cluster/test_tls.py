"""A whole system that speaks TLS alone: clients, its own services, and a renewal while a thousand clients are connected."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gantrymq
import gantrymq.http
from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.client_tls import ClientTls, ClientTlsFiles
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import LinkError
from gantry_wire.codes import RequestCode
from gantrymq.cli.main import main
from gantrymq.settings import ClientOptions

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]
SERVICES = ("nameserver", "broker-store", "scheduler", "txn-checker", "gateway")
CLIENTS = 1000
AT_ONCE = 50
ASKED_TIMES = 20
"""TLS connections, one a second of the test and one in three seconds of the launcher: it takes a silent process for hung after six."""
PATIENT_SECONDS = 60
NewSystem = Callable[..., dict[str, Any]]
Gantry = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    folder = tmp_path / "certs"
    assert main(["access", "dev-certs", str(folder), "--json"]) == 0
    return folder


def secured(folder: Path) -> list[str]:
    """Return the options of a system whose every port speaks TLS alone."""
    values = {
        "tls_mode": "enforcing",
        "tls_cert_file": folder / "server.pem",
        "tls_key_file": folder / "server.key",
        "tls_client": "true",
        "tls_ca_file": folder / "ca.pem",
    }
    return [
        word
        for service in SERVICES
        for name, value in values.items()
        for word in ("--set", f"{service}.{name}={value}")
    ]


def metrics_of(http: str, folder: Path) -> dict[str, float]:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    url = f"{http.replace('http:', 'https:')}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENT_SECONDS, context=context) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


async def test_a_system_that_speaks_tls_alone(
    new_system: NewSystem, certs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = await asyncio.to_thread(new_system, *secured(certs))
    https, ca = system["http"], str(certs / "ca.pem")
    secure: ClientOptions = {"nameservers": system["nameserver"], "tls": True, "tls_ca_file": ca}

    assert await asyncio.to_thread(main, ["topic", "create", "orders", "--http", https, "--ca-file", ca]) == 0
    assert await asyncio.to_thread(main, ["topic", "list", "--http", system["http"]]) != 0
    capsys.readouterr()
    async with gantrymq.Producer("shop", **secure) as producer:
        await producer.send(gantrymq.Message("orders", b"at once"))
        await producer.send(gantrymq.Message("orders", b"delayed", delay=1.0))
    async with gantrymq.http.Producer(http=https, tls_ca_file=ca) as producer_http:
        await producer_http.send(gantrymq.Message("orders", b"over HTTPS"))

    found: set[bytes] = set()
    async with gantrymq.PullConsumer(
        "readers", nameservers=system["nameserver"], tls=True, tls_ca_file=ca
    ) as consumer:
        async with asyncio.timeout(PATIENT_SECONDS):
            queues = await consumer.queues("orders")
            while found != {b"at once", b"delayed", b"over HTTPS"}:
                for queue in queues:
                    pulled = await consumer.pull(queue, 0)
                    found |= {bytes(message.body) for message in pulled.messages}

    with pytest.raises(gantrymq.GantryError):
        async with gantrymq.Producer("plain", nameservers=system["nameserver"]) as plain:
            await plain.send(gantrymq.Message("orders", b"in clear"))
    store = (await asyncio.to_thread(metrics_of, system["brokers"][0]["http"], certs)).items()
    assert {name: value for name, value in store if "tls" in name}["gantry_store_tls_handshakes_total"] > 0


@pytest.mark.soak
async def test_the_launcher_takes_no_process_that_speaks_tls_alone_for_hung(
    new_system: NewSystem, gantry: Gantry, certs: Path, tmp_path: Path
) -> None:
    system = await asyncio.to_thread(new_system, *secured(certs), "--hung-seconds", "6", name="watched")
    store = system["brokers"][0]["http"]
    plain = 'gantry_store_peers_refused_total{reason="plain"}'
    seen = await asyncio.to_thread(metrics_of, store, certs)
    before, asked = seen[plain], seen["gantry_store_tls_handshakes_total"] + ASKED_TIMES
    async with asyncio.timeout(PATIENT_SECONDS):
        while (seen := await asyncio.to_thread(metrics_of, store, certs))[
            "gantry_store_tls_handshakes_total"
        ] < asked:
            await asyncio.sleep(1)
    after = seen[plain]
    status = await asyncio.to_thread(gantry, "status", "--data", str(tmp_path / "watched"), "--json")
    restarts = {process["name"]: process["restarts"] for process in json.loads(status.stdout)["processes"]}
    assert set(restarts.values()) == {0}, restarts
    assert after == before


async def test_a_certificate_is_renewed_while_clients_are_connected(
    new_system: NewSystem, certs: Path, authority: Any
) -> None:
    """The renewal keeps the key: RocketMQ never loads such a one. Another authority signs it, so that clients see the difference."""
    system = await asyncio.to_thread(new_system, *secured(certs))
    address = system["nameserver"]
    ours = ClientTls(ClientTlsFiles(str(certs / "ca.pem")), pytest.fail).context
    connections = []
    for _ in range(CLIENTS // AT_ONCE):
        connections += await asyncio.gather(
            *(connect(address, tls=ours, within_seconds=PATIENT_SECONDS) for _ in range(AT_ONCE))
        )
    assert len(connections) == CLIENTS

    renewed = authority.issue(["localhost", "127.0.0.1"], key=(certs / "server.key").read_bytes())
    (certs / "new-ca.pem").write_bytes(authority.certificate)
    (certs / "server.pem").write_bytes(renewed.certificate)
    theirs = ClientTls(ClientTlsFiles(str(certs / "new-ca.pem")), pytest.fail).context
    pool = ConnectionPool(tls=theirs)
    async with asyncio.timeout(PATIENT_SECONDS):
        while not await has_answered(pool, address):
            await asyncio.sleep(0.1)
    await pool.close()

    answers = await asyncio.gather(
        *(one.request(RequestCode.GET_BROKER_CLUSTER_INFO, None, b"", PATIENT_SECONDS) for one in connections)
    )
    assert [answer.code for answer in answers] == [0] * CLIENTS
    transports = [one._transport for one in connections]
    for transport in transports:
        assert transport is not None
        transport.abort()  # without the farewells of TLS, which would outlast the loop
    async with asyncio.timeout(PATIENT_SECONDS):
        while any(one._transport for one in connections):
            await asyncio.sleep(0.01)


async def has_answered(pool: ConnectionPool, address: str) -> bool:
    """Whether the nameserver answers; it does not while its certificate is one that the pool does not trust."""
    try:
        await NameserverClient(pool, address, PATIENT_SECONDS).cluster_info()
    except LinkError:
        return False
    return True
