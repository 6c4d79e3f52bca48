"""Corrupt units in the middle of a ConsumeQueue file of the right size: what a reader gets."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ..crash.store_process import StoreProcess  # noqa: TID252
from .client import Client
from .conftest import SETTINGS, NewStore
from .filled import TOPIC, Filled, fill

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
FIRST, LAST = 40, 60
"""The damaged units."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    store = StoreProcess(tmp_path_factory.mktemp("units") / "store", settings=SETTINGS)
    store.start()
    try:
        filled = fill(store)
        assert store.stop() == 0
    finally:
        store.kill()
    return filled


def with_units(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(queue: Path) -> None:
        data = bytearray(queue.read_bytes())
        data[20 * FIRST : 20 * LAST] = change(bytes(data[20 * FIRST : 20 * LAST]))
        queue.write_bytes(data)

    return apply


def reversed_units(units: bytes) -> bytes:
    return b"".join(units[at : at + 20] for at in range(len(units) - 20, -1, -20))


DAMAGES = {
    "zeros": with_units(lambda units: bytes(len(units))),
    "noise": with_units(lambda units: random.Random(5).randbytes(len(units))),
    "ones": with_units(lambda units: b"\xff" * len(units)),
    "another order": with_units(reversed_units),
    "positions shifted": with_units(lambda units: units[3:] + units[:3]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reader_gets_every_other_message_and_never_a_wrong_one(
    stopped: Filled, new_store: NewStore, tmp_path: Path, damage: str
) -> None:
    filled = stopped.copy(tmp_path / "store")
    DAMAGES[damage](filled.store_dir / "consumequeue" / TOPIC / "0" / ("0" * 20))
    store = new_store()
    store.start()
    with Client(store.port) as client:
        found = client.read_all(TOPIC, 0)
        expected = filled.messages[0]
        assert {offset: body for offset, body in found.items() if expected.get(offset) != body} == {}
        assert [offset for offset in expected if offset not in found and not FIRST <= offset < LAST] == []
        assert client.read_all(TOPIC, 1) == filled.messages[1]
