"""Only services of the cluster pass."""

import os

import msgspec
import pytest
from guarded import KEYS, OTHER_KEYS, Guarded, connected, signed, table, user

from gantry_access.errors import InnerUser
from gantry_access.model.users import UserType
from gantry_guard.inner_door import ONLY_SERVICES, InnerDoor
from gantry_guard.introduction import Introducer
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import NotConnected
from gantry_link.serving.service_listener import Route, ServiceListener
from gantry_wire.frames.encode import encode_response

pytestmark = pytest.mark.anyio
LIST = 9010


class Nothing(msgspec.Struct):
    pass


class Listening:
    """A listener as the scheduler has, with one route."""

    def __init__(self, *, is_permissive=False):
        guarded = self.guarded = Guarded(table(users=[]), is_permissive=is_permissive)
        self.counts, self.asked = guarded.counts, []
        door = InnerDoor(guarded.introductions, guarded.refusals)
        self.listener = ServiceListener({LIST: Route("list", Nothing, self.answer)}, admit=door.admit)

    async def answer(self, asked):
        self.asked.append(asked)
        return Nothing()

    async def __aenter__(self):
        self.address = f"127.0.0.1:{await self.listener.listen('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_):
        await self.listener.close()


def introducing(keys=KEYS):
    return ConnectionPool(introduce=Introducer(keys.inner, "gateway", os.urandom))


async def test_a_service_that_introduced_itself_is_served():
    async with Listening() as listening:
        pool = introducing()
        connection = await pool.get(listening.address)
        assert (await connection.request(LIST, {})).code == 0
        await pool.close()
    assert len(listening.asked) == 1


async def test_everybody_else_is_refused_signed_or_not():
    async with Listening() as listening:
        connection = await connect(listening.address)
        for fields in ({}, signed({}), {"inner": "gateway"}, {"role": "gateway", "nonce": "x"}):
            answer = await connection.request(LIST, fields)
            assert (answer.code, answer.remark) == (16, ONLY_SERVICES)
        connection.oneway(LIST, {})
        connection.send(encode_response(0, 77))
        assert (await connection.request(999, {})).code == 16
        connection.close()
    assert listening.asked == []
    assert listening.counts() == {"not_inner": 6}


async def test_a_service_of_another_cluster_is_refused():
    async with Listening() as listening:
        pool = introducing(OTHER_KEYS)
        with pytest.raises(NotConnected, match="does not have the keys"):
            await pool.get(listening.address)
        await pool.close()
    assert listening.asked == []


async def test_no_user_of_the_table_is_an_inner_one():
    with pytest.raises(InnerUser):
        table(users=[user(type=UserType.INNER)])
    async with connected(Guarded(table()).receive) as connection:
        assert (await connection.request(LIST, signed({}))).code == 16
