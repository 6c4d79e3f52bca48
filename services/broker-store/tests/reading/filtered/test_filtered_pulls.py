"""Filtered pulls that end in the background."""

import asyncio

import pytest
from memory_store import bodies_of
from reading_side import SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields

from broker_store.reading.filtered.filtered_scan import FIRST_UNITS, Scan

pytestmark = pytest.mark.anyio


async def test_a_message_that_arrives_in_the_turn_in_which_a_scan_ends_is_not_waited_past(
    tmp_path, monkeypatch
):
    side, right = ReadingSide(tmp_path), Scan._end
    for _ in range(FIRST_UNITS + 1):
        side.put(b"m", tags="blue")

    def end_and_arrive(scan):
        right(scan)
        monkeypatch.undo()
        asyncio.get_running_loop().call_soon(lambda: side.put(b"wanted", tags="red"))

    monkeypatch.setattr(Scan, "_end", end_and_arrive)
    fields = pull_fields(
        0, expressionType="SQL92", subscription="TAGS = 'red'", sysFlag=WITH_SUBSCRIPTION | SUSPEND,
        suspendTimeoutMillis=600_000,
    )  # fmt: skip
    side.consuming.settings.property_filter_enable = True
    async with asyncio.timeout(10):
        reply = await side.ask(11, fields)
    assert bodies_of(reply.body) == [b"wanted"]
    await side.consuming.stop()
