"""The service listener: JSON in and out, refusals by code, and no task left after its client disconnects."""

import asyncio
import contextlib

import msgspec
import pytest
from scripted_link import eventually

from gantry_link.connections.connection import connect
from gantry_link.errors import BrokerRefused, NotConnected
from gantry_link.serving.service_listener import Route, ServiceListener
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

pytestmark = pytest.mark.anyio
DOUBLE, REFUSE, BREAK, WAIT, FULL, AWAY = 1, 2, 3, 4, 5, 6


class Number(msgspec.Struct):
    n: int = 0


class Log:
    def __init__(self):
        self.counted, self.failed, self.waiting, self.cancelled = [], [], 0, 0

    async def double(self, asked):
        return Number(asked.n * 2)

    async def refuse(self, _asked):
        raise RefusedRequest(ResponseCode.QUERY_NOT_FOUND, "nothing here", {"gantryCode": "GONE"})

    async def break_(self, _asked):
        raise ValueError("our bug")

    async def full(self, _asked):
        raise BrokerRefused(14, "the disk is full", {"gantryCode": "DISK_FULL"})

    async def away(self, _asked):
        raise NotConnected("no connection to 127.0.0.1:1 within 3 s")

    async def wait(self, _asked):
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1


@contextlib.asynccontextmanager
async def opened():
    log = Log()
    routes = {
        DOUBLE: Route("double", Number, log.double),
        REFUSE: Route("refuse", Number, log.refuse),
        BREAK: Route("break", Number, log.break_),
        WAIT: Route("wait", Number, log.wait),
        FULL: Route("full", Number, log.full),
        AWAY: Route("away", Number, log.away),
    }
    listener = ServiceListener(
        routes,
        count=lambda name, code: log.counted.append((name, code)),
        failed=lambda name, error: log.failed.append((name, str(error))),
    )
    port = await listener.listen("127.0.0.1", 0)
    connection = await connect(f"127.0.0.1:{port}")
    try:
        yield log, connection
    finally:
        connection.close()
        await listener.close()


async def test_a_typed_request_gets_a_typed_answer_and_is_counted():
    async with opened() as (log, connection):
        answer = await connection.request(DOUBLE, None, b'{"n":21}')
        assert (answer.code, answer.body) == (0, b'{"n":42}')
        assert (await connection.request(DOUBLE)).body == b'{"n":0}'
        assert log.counted == [("double", 0), ("double", 0)]


async def test_a_refusal_of_the_store_reaches_the_client_and_is_not_counted_as_a_bug():
    async with opened() as (log, connection):
        full = await connection.request(FULL)
        assert (full.code, full.remark, full.ext["gantryCode"]) == (14, "the disk is full", "DISK_FULL")
        away = await connection.request(AWAY)
        assert away.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "within 3 s; try again" in away.remark
        assert log.failed == []


async def test_refusals_bad_bodies_and_bugs_have_different_codes():
    async with opened() as (log, connection):
        refused = await connection.request(REFUSE)
        assert (refused.code, refused.remark, refused.ext["gantryCode"]) == (22, "nothing here", "GONE")
        assert (await connection.request(DOUBLE, None, b"no json")).code == ResponseCode.SYSTEM_ERROR
        assert log.failed == []
        assert (await connection.request(BREAK)).remark == "ValueError: our bug"
        assert log.failed == [("break", "our bug")]
        assert (await connection.request(999)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_requests_of_a_client_that_disconnects_are_cancelled():
    async with opened() as (log, connection):
        answer = connection.request(WAIT)
        await eventually(lambda: log.waiting)
        connection.close()
        await eventually(lambda: log.cancelled == 1)
        with contextlib.suppress(Exception):
            await answer
