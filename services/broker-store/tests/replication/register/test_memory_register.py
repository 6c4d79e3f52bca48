"""The faults of the register in memory are those of a real one, and its promises hold through them."""

import pytest
from nats_nodes import record

from broker_store.replication.register import (
    Faults,
    MemoryRegister,
    Records,
    Refused,
    RegisterAway,
    RegisterBehind,
    Unknown,
    Written,
)

pytestmark = pytest.mark.anyio


async def of_a_group(version: int) -> tuple[Records, Faults, MemoryRegister]:
    records, faults = Records("broker-a"), Faults()
    made = MemoryRegister(records, faults, 0)
    await made.bootstrap(record(1, "n1"))
    for later in range(2, version + 1):
        await made.write(later - 1, record(later, f"n{later}"))
    return records, faults, made


async def test_a_stale_read_of_what_this_store_has_not_seen_looks_like_any_read() -> None:
    records, _, _ = await of_a_group(3)
    stale = MemoryRegister(records, Faults(stale_by=1), 0)
    assert (await stale.read()).version == 2


async def test_a_stale_read_of_what_this_store_has_seen_is_recognised() -> None:
    _, faults, one = await of_a_group(3)
    faults.stale_by = 2
    with pytest.raises(RegisterBehind):
        await one.read()
    faults.stale_by = 0
    assert (await one.read()).version == 3


async def test_a_write_whose_reply_is_lost_is_recognised_when_repeated() -> None:
    _, faults, one = await of_a_group(1)
    faults.replies_lost = 1
    assert isinstance(await one.write(1, record(2, "mine")), Unknown)
    assert await one.write(1, record(2, "mine")) == Written(2)


async def test_a_write_under_way_stays_unknown_until_it_or_another_arrives() -> None:
    records, faults, one = await of_a_group(1)
    faults.writes_late = 1
    assert isinstance(await one.write(1, record(2, "mine")), Unknown)
    assert (await one.read()).version == 1
    records.arrive()
    assert await one.write(1, record(2, "mine")) == Written(2)
    faults.writes_late = 1
    assert isinstance(await one.write(2, record(3, "late")), Unknown)
    await MemoryRegister(records, Faults(), 0).write(2, record(3, "other"))
    records.arrive()
    assert await one.write(2, record(3, "late")) == Refused(record(3, "other"))


async def test_a_write_is_overtaken_by_another_store() -> None:
    _, faults, one = await of_a_group(1)
    faults.overtaken_by.append(record(2, "other"))
    assert await one.write(1, record(2, "mine")) == Refused(record(2, "other"))


async def test_a_stale_read_after_a_refused_write_decides_nothing() -> None:
    _, faults, one = await of_a_group(1)
    faults.overtaken_by.append(record(2, "other"))
    faults.stale_by = 1
    assert isinstance(await one.write(1, record(2, "mine")), Unknown)


async def test_an_absent_register_answers_nothing_and_takes_nothing() -> None:
    records, faults, one = await of_a_group(1)
    faults.is_away = True
    with pytest.raises(RegisterAway):
        await one.read()
    assert isinstance(await one.write(1, record(2, "mine")), Unknown)
    assert await one.wait_newer(0, 0.01) is None
    assert len(records.stored) == 1
