"""A gateway over in-memory ports, called through ASGI without a socket."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest


def _load(name: str, file: str) -> ModuleType:
    """Import a module beside the tests; test folders are not packages here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(file))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_load("gateway_problem_check", "problem_check.py")
_load("gateway_http_store", "http_store.py")
_load("gateway_memory_store", "memory_store.py")
_load("gateway_memory_scheduler", "memory_scheduler.py")
_load("gateway_memory_transactions", "memory_transactions.py")
_load("gateway_memory_leases", "memory_leases.py")
_load("gateway_fast_line", "fast_line.py")
memory = _load("gateway_memory", "memory.py")
_load("gateway_guarded", "guarded.py")
_load("gateway_grpc_peers", "grpc_peers.py")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def system(anyio_backend):
    """One broker with the topic `orders` (4 queues) and the group `g1`."""
    one = memory.MemorySystem()
    one.add_topic("orders")
    one.add_group("g1")
    return one


@pytest.fixture
async def pair(anyio_backend):
    """Two brokers with the topic `orders`."""
    two = memory.MemorySystem(("broker-a", "broker-b"))
    two.add_topic("orders")
    two.add_group("g1")
    return two


def client_of(gateway) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=gateway.app, raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://gateway")


@pytest.fixture
async def client(system) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(system.gateway()) as http:
        yield http


@pytest.fixture
async def pair_client(pair) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(pair.gateway()) as http:
        yield http


@pytest.fixture(scope="module")
async def refusing_system(anyio_backend):
    """One system for all tests of a module whose calls are refused: such tests leave nothing behind."""
    one = memory.MemorySystem()
    one.add_topic("orders")
    one.add_group("g1")
    return one


@pytest.fixture(scope="module")
async def refusing_client(refusing_system) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(refusing_system.gateway()) as http:
        yield http


@pytest.fixture
def connect():
    """Open a client of a gateway made by the test."""
    return client_of
