"""A whole store answers every code that RocketMQ 5.3.3's tools send to a master with file queues."""

import asyncio

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.commit.visible.store_events import StoreListeners
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.process.extension_hooks import build_hooks
from broker_store.process.halves_and_features import all_commands, build_features, build_halves, listeners_of
from broker_store.process.parts.access import Access
from broker_store.process.parts.configuration import Configuration
from broker_store.transactions.producer_checks import DecisionRights, Relays
from gantry_wire.bodies.admin import HARuntimeInfo
from gantry_wire.bodies.json_body import decode_body

pytestmark = pytest.mark.anyio

MESSAGES = {10, 310, 320, 324, 325, 11, 361, 12, 33, 36, 37, 370, 41, 42, 46}
OFFSETS_AND_CLIENTS = {14, 15, 29, 30, 31, 32, 34, 35, 38}
TOOLS = {
    17, 18, 21, 25, 26, 28, 43, 45, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306, 307,
    308, 309, 314, 315, 316, 317, 321, 323, 328, 329, 343, 345, 351, 352, 353, 401, 907, 1007,
    60, 61, 402,  # of slaves
    50, 51, 52, 53, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010,
}  # fmt: skip


class WholeStore(SendingSide):
    """Sending, reading and all features."""

    def __init__(self) -> None:
        super().__init__()
        access = Access(self.around, self.store, self.sending, None)
        features = build_features(
            self.around,
            self.store,
            self.foundation,
            self.halves,
            self.thread,
            self.configuration,
            access,
            DecisionRights(lambda _peer, _topic: True, Relays()),
        )
        self.table.add_all({**self.halves.consuming.commands(), **all_commands(features)})

    def build_rest(self) -> StoreListeners:
        config = BrokerConfig({}, DataVersionCounter(self.clock.now_ms))
        self.halves = build_halves(self.around, self.store, self.foundation, self.sending, config)
        self.configuration = Configuration(
            self.around, self.store, self.foundation, self.sending, self.halves.group_records, config
        )
        hooks = build_hooks(self.around, self.sending)
        return listeners_of(self.around, self.store, self.foundation, self.halves, hooks, self.rolls)

    def begin_records(self) -> None:
        self.configuration.begin()


async def test_every_code_of_clients_and_tools_has_a_handler():
    missing = (MESSAGES | OFFSETS_AND_CLIENTS | TOOLS) - set(WholeStore().table.codes())
    assert missing == set()


async def test_requests_of_tools_reach_the_disk_care_and_the_log():
    store, peer = WholeStore(), ScriptedPeer()
    store.send(peer, body=b"x" * 100)
    store.flush()
    peer.answers.clear()
    for code in (306, 316, 329, 907):
        store.ask(peer, code)
    async with asyncio.timeout(60):
        while len(peer.answers) < 4:
            await asyncio.sleep(0.005)
    assert {answer.code for answer in peer.answers} == {0}
    (status,) = (answer for answer in peer.answers if answer.body)
    assert decode_body(status.body, HARuntimeInfo).master_commit_log_max_offset == store.log.written_end > 0
