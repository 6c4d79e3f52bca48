"""An answer that no message waits is a contradiction only where the gateway expects the store of the message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from gantry_simulation.clients.http_client import Answer
from gantry_simulation.ledger.delays import Due
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.lives.history import History
from gantry_simulation.lives.operations.doing import Doing
from gantry_simulation.lives.operations.http.schedules import cancel, move
from gantry_simulation.lives.plan import Act, topic_name
from gantry_simulation.world.world import World

BOTH = ["store-0", "store-1"]
ACT = Act(at_ms=0, kind="order", on="store-0", number=2)


class Asking:
    """A client whose orders get one answer, and that is shown the brokers of a topic before and afterwards."""

    name = "client"

    def __init__(self, world: World, code: str, shown: list[list[str]], starts: list[int]) -> None:
        self.ledger, self.history, self.now_ns = Ledger(world), History(world), lambda: world.now_ns
        self._code, self._shown, self._starts = code, iter(shown), iter(starts)
        self.ledger.delays.begin("hd2", "store-0", topic_name(0), Due(0))
        self.ledger.delays.acknowledged("hd2")
        self.ledger.messages.unique_keys["hd2"] = "K"

    def lives_of(self, _store: str) -> int:
        return next(self._starts)

    def http(self) -> Asking:
        return self

    async def call(self, method: str, path: str, body: object, *, seconds: float) -> Answer:
        if method == "GET":
            shown: dict[str, Any] = {"brokers": [{"broker": one} for one in next(self._shown)], "missing": []}
            return Answer(200, msgspec.json.encode(shown))
        return Answer(404, msgspec.json.encode({"code": self._code}))


@pytest.mark.parametrize("order", [cancel, move])
@pytest.mark.parametrize(
    ("code", "shown", "starts", "is_found"),
    [
        ("QUERY_NOT_FOUND", [BOTH, BOTH], [1, 1], True),
        ("QUERY_NOT_FOUND", [BOTH, ["store-1"]], [1, 1], False),
        ("QUERY_NOT_FOUND", [["store-1"], BOTH], [1, 1], False),
        ("QUERY_NOT_FOUND", [BOTH, BOTH], [1, 2], False),
        ("BROKER_NOT_EXIST", [BOTH, BOTH], [1, 1], False),
    ],
)
def test_a_message_that_is_unknown_is_found_unless_the_gateway_did_not_expect_its_store(
    world: World,
    order: Callable[[Doing, Act], Awaitable[None]],
    code: str,
    shown: list[list[str]],
    starts: list[int],
    is_found: bool,
) -> None:
    doing = Asking(world, code, shown, starts)

    async def run() -> None:
        await order(cast("Doing", doing), ACT)

    asyncio.run(run())
    assert [one.what for one in world.violations] == ["hd2 is unknown to the scheduler"] * is_found
