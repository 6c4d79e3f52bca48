"""Hostile clients of a small HTTP port: silent ones, endless heads and bodies, non-reading readers, many of each."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator

import pytest

from gantry_chassis.http.connection import HEAD_BYTES_MAX
from gantry_chassis.http.server import BODY_BYTES_MAX, DESCRIPTORS_MORE, HttpServer, Request, Response
from gantry_chassis.peers.budget import Account, Budget, BudgetLimits

pytestmark = pytest.mark.anyio
POST = (
    b"POST /keep HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Noted(Budget):
    """A budget that records its reports and its peak."""

    def __init__(self, limits: BudgetLimits | None = None) -> None:
        self.refusals_seen: list[tuple[str, str]] = []
        self.most = 0
        super().__init__(limits, lambda peer, message: self.refusals_seen.append((peer, message)))

    def change(self, account: Account, size: int) -> None:
        super().change(account, size)
        self.most = max(self.most, self.held)


@contextlib.asynccontextmanager
async def serving(budget: Budget, read_seconds: float = 1_000.0) -> AsyncIterator[int]:
    def keep(request: Request) -> Response:
        return Response(200, str(len(request.body)).encode())

    def large(_request: Request) -> Response:
        return Response(200, bytes(3_000_000))

    routes = {("POST", "/keep"): keep, ("GET", "/large"): large}
    server = HttpServer("127.0.0.1", 0, routes, budget, read_seconds=read_seconds)
    try:
        yield await server.start()
    finally:
        await server.close()


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.name = f"127.0.0.1:{writer.get_extra_info('sockname')[1]}"

    @classmethod
    async def to(cls, port: int, sent: bytes = b"") -> "Line":
        line = cls(*await asyncio.open_connection("127.0.0.1", port))
        line.writer.write(sent)
        return line

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def ended(self) -> bool:
        async with asyncio.timeout(60):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


async def until_zero(budget: Budget) -> None:
    async with asyncio.timeout(60):
        while budget.held:
            await asyncio.sleep(0.005)


async def test_incomplete_bodies_are_bounded_and_the_oldest_are_refused_with_a_reason() -> None:
    budget = Noted(BudgetLimits(address_bytes_max=2_000_000))
    async with serving(budget) as port:
        lines = [await Line.to(port, POST % BODY_BYTES_MAX + bytes(900_000)) for _ in range(6)]
        for number in range(10):
            honest = await Line.to(port, POST % 800_000 + bytes(400_000))
            await asyncio.sleep(0.01)
            honest.writer.write(bytes(400_000))
            assert await honest.answer() == (200, b"800000"), number
            honest.writer.close()
        status, body = await lines[0].answer()
        assert status == 503
        assert "try again" in json.loads(body)["error"]
        assert await lines[0].ended()
        assert budget.refusals_seen[0][0] == lines[0].name
        assert budget.most <= 3_000_000
        for line in lines:
            line.writer.transport.abort()
        await until_zero(budget)


async def test_an_endless_head_is_cut_off_and_its_bytes_are_released() -> None:
    budget = Noted()
    async with serving(budget) as port:
        line = await Line.to(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        answering = asyncio.ensure_future(line.answer())
        for number in range(100_000):
            if answering.done():
                break
            with contextlib.suppress(ConnectionError):
                line.writer.write(b"X-%d: %s\r\n" % (number, b"a" * 1000))
                await line.writer.drain()
        status, body = await answering
        assert (status, str(HEAD_BYTES_MAX) in json.loads(body)["error"]) == (431, True)
        assert budget.most < 1_000_000
        await until_zero(budget)


async def test_a_request_that_does_not_arrive_in_time_is_408_and_a_silent_connection_ends() -> None:
    budget = Noted()
    async with serving(budget, read_seconds=0.5) as port:
        silent = await Line.to(port)
        head = await Line.to(port, b"GET /large HTTP/1.1\r\nX: ")
        body = await Line.to(port, POST % 10 + b"12345")
        for line in (head, body):
            status, words = await line.answer()
            assert (status, "did not come whole within 0.5 s" in json.loads(words)["error"]) == (408, True)
        for line in (silent, head, body):
            assert await line.ended()
            line.writer.close()
    assert {peer for peer, _ in budget.refusals_seen} == {head.name, body.name}


async def test_a_client_that_reads_nothing_is_cut_when_others_need_the_bytes() -> None:
    budget = Noted(BudgetLimits(bytes_max=6_000_000))
    async with serving(budget) as port:
        slow: list[Line] = []
        for _ in range(6):
            line = await Line.to(port)
            line.writer.transport.pause_reading()  # type: ignore[attr-defined]
            line.writer.write(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4)
            slow.append(line)
            await asyncio.sleep(0.05)
        async with asyncio.timeout(60):
            while not budget.refusals_seen:
                await asyncio.sleep(0.01)
        honest = await Line.to(port, b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await honest.answer())[1] == bytes(3_000_000)
        assert "answers it does not read" in budget.refusals_seen[0][1]
        assert budget.most <= 10_000_000
        for line in [*slow, honest]:
            line.writer.transport.abort()
        await until_zero(budget)


async def test_a_refused_and_dropped_body_is_not_counted() -> None:
    budget = Noted()
    async with serving(budget) as port:
        line = await Line.to(port, POST % 20_000_000 + bytes(1_500_000))
        assert (await line.answer())[0] == 413
        for _ in range(10):
            line.writer.write(bytes(1_000_000))
            await line.writer.drain()
        assert budget.most <= BODY_BYTES_MAX + 600_000
        await until_zero(budget)
        line.writer.close()


async def test_a_connection_on_a_reserved_descriptor_is_refused_with_a_reason() -> None:
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    budget = Noted(BudgetLimits(descriptors_max=spare + 20 - DESCRIPTORS_MORE))
    async with serving(budget) as port:
        honest = await Line.to(port)
        lines = [await Line.to(port) for _ in range(30)]
        status, words = await lines[-1].answer()
        assert (status, "ulimit" in json.loads(words)["error"]) == (503, True)
        honest.writer.write(POST % 2 + b"ab")
        assert await honest.answer() == (200, b"2")
        for line in [*lines, honest]:
            line.writer.close()


async def test_the_server_checks_connections_only_while_there_are_some() -> None:
    server = HttpServer("127.0.0.1", 0, {}, Budget(), read_seconds=0.1)
    port = await server.start()
    assert server._sweeper is None
    line = await Line.to(port)
    assert await line.ended()
    line.writer.close()
    began = time.monotonic()
    while server._sweeper is not None:
        assert time.monotonic() - began < 60
        await asyncio.sleep(0.01)
    await server.close()
