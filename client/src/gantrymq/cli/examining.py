"""The checks of `gantrymq doctor`: the gateway, every nameserver, every broker at its advertised address.

Only reads. It uses remoting from this machine, as clients do: a gateway on the brokers' network sees
addresses that other machines may not reach.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.clients.store import StoreClient
from gantry_link.connections.client_tls import ClientTlsFiles, TlsContext
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.private_requests.leading import NOT_LEADER
from gantrymq.cli.calls import Calls, path_of
from gantrymq.cli.stops import WRONG_USE, Stop
from gantrymq.errors import ConfigurationError
from gantrymq.tls import check_tls, tls_defaults

ANSWER_SECONDS = 5.0
MASTER_ID = 0
FAST_PORT_STEP = -2
UNAUTHORIZED = 401


@dataclass(frozen=True)
class Finding:
    """The result of one check; for a failure also the message and the setting that fixes it."""

    part: str
    address: str
    is_well: bool
    took_ms: float = 0.0
    words: str = ""
    remedy: str = ""
    is_open: bool = False
    """Whether it answers without credentials."""

    def shown(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            {"is_well": "ok", "took_ms": "tookMs", "is_open": "open"}.get(name, name): value
            for name, value in asdict(self).items()
        }


async def examine(calls: Calls) -> list[Finding]:
    """Run all checks; an unreachable gateway ends them, because it has the other addresses."""
    found = [await _tried("gateway", calls.base, lambda: _live(calls), "")]
    if not found[0].is_well:
        return found
    found = [replace(found[0], is_open=await asyncio.to_thread(_is_open, calls))]
    found.append(await _round_trip(calls))
    cluster = calls.call("GET", path_of("cluster"))
    pool = ConnectionPool(connect_seconds=ANSWER_SECONDS, tls=_tls())
    try:
        listed: list[dict[str, Any]] = cluster["nameservers"]
        seen, known_by = await try_nameservers(pool, listed)
        found += seen
        known = await asyncio.to_thread(calls.call, "GET", path_of("brokers"))
        found += await try_brokers(pool, [one["address"] for one in listed], known_by, known["brokers"])
    finally:
        await pool.close()
    return found


def _tls() -> TlsContext | None:
    """Return the contexts for remoting, as the environment sets them for every client of the SDK. Raises Stop."""
    try:
        options = tls_defaults()
        if not options.pop("tls", False):
            return None
        files = ClientTlsFiles(
            options.get("tls_ca_file", ""),
            options.get("tls_cert_file", ""),
            options.get("tls_key_file", ""),
            options.get("tls_verify_name", True),
        )
        return check_tls(files)
    except ConfigurationError as error:
        raise Stop(str(error), WRONG_USE) from None


async def _live(calls: Calls) -> None:
    await asyncio.to_thread(calls.call, "GET", "/health/live")
    await asyncio.to_thread(calls.call, "GET", path_of("topics"))  # needs the token; health does not


def _is_open(calls: Calls) -> bool:
    """Whether the gateway answers without credentials."""
    without = Calls(calls.base, "", calls.files)
    try:
        return without.status(path_of("topics")) != UNAUTHORIZED
    finally:
        without.close()


def exposure(findings: list[Finding]) -> str:
    """Return what access control closes: everything, or which addresses are open."""
    opened = [one for one in findings if one.is_open]
    if not opened:
        return "access control: on"
    abroad = [one.address for one in opened if not _is_loopback(one.address)]
    if abroad:
        words = f"access control: off: anyone who reaches {', '.join(abroad)} may read, change and delete everything"
        return f"{words}; ./gantry access init switches it on"
    if opened[0].part != "gateway":
        return "access control: off, except for the gateway; only this machine reaches the other ports"
    return "access control: off; only this machine reaches the ports"


def _is_loopback(address: str) -> bool:
    host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _round_trip(calls: Calls) -> Finding:
    """Ask the gateway whether a message made the round trip through each broker; its 503 says so too, and is not a problem document."""
    began = time.perf_counter()
    body = await asyncio.to_thread(calls.call, "GET", "/health/ready", is_report=True, fresh=True)
    if body.get("status") == "ready":
        return Finding("round trip", calls.base, True, (time.perf_counter() - began) * 1000)
    bad = "; ".join(f"{name}: {why}" for name, why in body.get("stores", {}).items() if why != "ok")
    words = f"no message makes the round trip ({bad or body.get('status')})"
    remedy = "see below, and the log of the broker named: ./gantry status"
    return Finding("round trip", calls.base, False, words=words, remedy=remedy)


async def try_nameservers(
    pool: ConnectionPool, listed: list[dict[str, Any]]
) -> tuple[list[Finding], dict[str, dict[str, dict[int, str]]]]:
    """Ask each nameserver for its brokers: name → id → address, by nameserver."""
    found: list[Finding] = []
    known_by: dict[str, dict[str, dict[int, str]]] = {}
    for one in listed:
        address = one["address"]

        async def ask(address: str = address) -> None:
            info = await NameserverClient(pool, [address], ANSWER_SECONDS).cluster_info()
            known_by[address] = {
                data.broker_name: dict(data.broker_addrs) for data in info.broker_addr_table.values()
            }

        remedy = (
            "the gateway reaches it and this machine does not: make it listen here (nameserver.listen), "
            "open the port, or name an address that both reach (gateway.nameservers)"
            if one["alive"]
            else "the gateway does not reach it either: start it, or remove it from gateway.nameservers and from the brokers' nameservers"
        )
        found.append(await _tried("nameserver", address, ask, remedy))
    return found, known_by


async def try_brokers(
    pool: ConnectionPool,
    nameservers: list[str],
    known_by: dict[str, dict[str, dict[int, str]]],
    listed: list[dict[str, Any]],
) -> list[Finding]:
    """Ask each broker at every advertised address, and report nameservers that do not know it."""
    found: list[Finding] = []
    alive = {one["broker"]: bool(one["alive"]) for one in listed}
    places = {
        (name, address)
        for held in known_by.values()
        for name, ids in held.items()
        for address in ids.values()
    }
    places |= {(one["broker"], one["address"]) for one in listed}
    for name, address in sorted(places):
        found.append(
            await _tried(
                name,
                address,
                lambda address=address: _ask_broker(pool, address),
                _broker_remedy(name, address, alive),
            )
        )
        fast = _fast_address(address)
        if found[-1].is_well and fast is not None:
            remedy = f"clients with the VIP channel send to it: open port {fast.rpartition(':')[2]} too, or switch that channel off in them"
            found.append(
                await _tried(f"{name} fast", fast, lambda fast=fast: _ask_broker(pool, fast), remedy)
            )
    for name in sorted({name for name, _ in places}):
        silent = [address for address in nameservers if address in known_by and name not in known_by[address]]
        if silent and alive.get(name):
            words = (
                f"{', '.join(silent)} does not know it, so clients that use that nameserver do not find it"
            )
            found.append(
                Finding(
                    name,
                    ", ".join(silent),
                    False,
                    words=words,
                    remedy=f"{name}.nameservers must name every nameserver",
                )
            )
    return found


def _broker_remedy(name: str, address: str, alive: dict[str, bool]) -> str:
    host = address.rpartition(":")[0]
    if not alive.get(name, True):
        return "the gateway does not reach it either: is it running? ./gantry status shows it; its log says why it ended"
    if host.startswith("127.") or host in {"localhost", "::1"}:
        return f"it advertises an address that only its own machine has: set {name}.advertise to a host that clients reach, and {name}.listen to 0.0.0.0"
    return f"it advertises this address: set {name}.advertise to a host that clients reach, or open the port to this machine"


async def _ask_broker(pool: ConnectionPool, address: str) -> None:
    """Ask for anything. A replica that follows refuses, and is well."""
    try:
        await StoreClient(pool, address, ANSWER_SECONDS).runtime_info()
    except BrokerRefused as refused:
        if refused.fields.get("gantryCode") != NOT_LEADER:
            raise


def _fast_address(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + FAST_PORT_STEP}" if port.isdigit() else None


async def _tried(part: str, address: str, do: Callable[[], Awaitable[None]], remedy: str) -> Finding:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(ANSWER_SECONDS * 3):
            await do()
    except BrokerRefused as error:
        if error.code == ResponseCode.NO_PERMISSION:  # it answers, and wants credentials: clients reach it
            return Finding(part, address, True, (time.perf_counter() - began) * 1000)
        return Finding(part, address, False, words=f"it refuses: {error.remark}", remedy=remedy)
    except Stop as stop:  # a message that ends with what to do
        words, _, fix = stop.words.partition("): ")
        return Finding(part, address, False, words=f"{words})" if fix else words, remedy=remedy or fix)
    except (LinkError, TimeoutError, OSError) as error:
        return Finding(
            part,
            address,
            False,
            words=f"this machine cannot reach it: {error or type(error).__name__}",
            remedy=remedy,
        )
    return Finding(part, address, True, (time.perf_counter() - began) * 1000, is_open=True)
