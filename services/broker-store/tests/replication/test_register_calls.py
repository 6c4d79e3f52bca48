"""Calls of the register: each operation has one answer within a time, and what cannot be known is lost, not empty."""

import asyncio

import pytest

from broker_store.replication.register.memory_register import Faults, MemoryRegister, Records
from broker_store.replication.register.port import RegisterUnusable
from broker_store.replication.register.record import Registered
from broker_store.replication.register_calls import RegisterCalls
from broker_store.replication.steps import (
    ReadRegister,
    RegisterLost,
    RegisterRead,
    RegisterRefused,
    RegisterWritten,
    WriteRegister,
)

pytestmark = pytest.mark.anyio
FIRST = Registered(1, "g", 1, "a", ("a",), 1, "a-1", "a-1")
SECOND = Registered(2, "g", 2, "b", ("b",), 2, "b-1", "a-1")


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Asked:
    def __init__(self, may_bootstrap=True, remembered=0, register=None):
        self.records, self.faults, self.answers = Records("g"), Faults(), []
        self.register = register or MemoryRegister(self.records, self.faults, remembered)
        self.calls = RegisterCalls(self.register, self.answers.append, 0.05, may_bootstrap=may_bootstrap)

    async def answer(self):
        while not self.answers:
            await asyncio.sleep(0.001)
        return self.answers.pop()

    async def read(self, operation=7):
        self.calls.read(ReadRegister(operation))
        return await self.answer()

    async def write(self, record, operation=8):
        self.calls.write(WriteRegister(operation, record))
        return await self.answer()


async def test_a_first_record_is_made_read_and_followed_by_another():
    asked = Asked()
    assert await asked.read() == RegisterRead(7, None)
    assert await asked.write(FIRST) == RegisterWritten(8)
    assert await asked.read() == RegisterRead(7, FIRST)
    assert await asked.write(SECOND) == RegisterWritten(8)
    assert await asked.read() == RegisterRead(7, SECOND)
    assert asked.calls.fault == ""


async def test_a_refused_write_says_what_stands():
    asked = Asked()
    await asked.write(FIRST)
    asked.records.append(
        1,
        b'{"version":2,"group":"g","epoch":2,"leader":"c","members":["c"],"boots":2,"nonce":"c-1","origin":"a-1"}',
    )
    answer = await asked.write(SECOND)
    assert isinstance(answer, RegisterRefused)
    assert answer.newest.nonce == "c-1"


@pytest.mark.parametrize(("may_bootstrap", "remembered"), [(False, 0), (True, 3), (False, 3)])
async def test_an_empty_register_is_lost_for_a_replica_that_may_not_make_its_first_record(
    may_bootstrap, remembered
):
    asked = Asked(may_bootstrap, remembered)
    assert await asked.read() == RegisterLost(7)
    assert "empty" in asked.calls.fault


async def test_an_emptied_register_is_lost_after_it_had_a_record():
    asked = Asked()
    await asked.write(FIRST)
    await asked.read()
    asked.records.stored.clear()
    assert await asked.read() == RegisterLost(7)


async def test_a_register_that_is_away_or_behind_is_lost_and_says_so_until_it_answers():
    asked = Asked()
    await asked.write(FIRST)
    asked.faults.is_away = True
    assert await asked.read() == RegisterLost(7)
    assert await asked.write(SECOND) == RegisterLost(8)
    assert "away" in asked.calls.fault
    asked.faults.is_away = False
    asked.register.learn(5)
    assert await asked.read() == RegisterLost(7)
    assert "version 1" in asked.calls.fault
    asked.register._known = 1
    assert await asked.read() == RegisterRead(7, FIRST)
    assert asked.calls.fault == ""


async def test_a_lost_reply_of_a_write_is_lost_and_its_repeat_succeeds():
    asked = Asked()
    await asked.write(FIRST)
    asked.faults.replies_lost = 1
    assert await asked.write(SECOND) == RegisterLost(8)
    assert await asked.write(SECOND, 9) == RegisterWritten(9)
    assert len(asked.records.stored) == 2


class Silent:
    known = 0

    async def read(self):
        await asyncio.sleep(3600)

    async def write(self, _expected_version, _record):
        await asyncio.sleep(3600)

    async def bootstrap(self, _record):
        raise RegisterUnusable("there once was a record")


async def test_a_silent_register_is_lost_after_the_time():
    asked = Asked(register=Silent())
    assert await asked.read() == RegisterLost(7)
    assert asked.calls.fault == "the register did not answer within 0.05 s"
    assert await asked.write(SECOND) == RegisterLost(8)


async def test_an_unusable_register_is_lost_and_says_why():
    asked = Asked(register=Silent())
    assert await asked.write(FIRST) == RegisterLost(8)
    assert asked.calls.fault == "there once was a record"


async def test_nothing_is_answered_after_the_end():
    asked = Asked(register=Silent())
    asked.calls.read(ReadRegister(7))
    await asyncio.sleep(0)
    await asked.calls.close()
    assert asked.answers == []
    assert not asked.calls._tasks
