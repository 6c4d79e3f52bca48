"""A store without a network whose topics, groups and settings change, over a simulated disk, moved by the test."""

import asyncio
from typing import Any

from leasing_side import LeasingSide
from sending_side import ScriptedPeer

from broker_store.commit.visible.store_events import StoreListeners
from broker_store.config.configuration_handler import ConfigurationHandlers
from broker_store.groups.forbidden_handler import ForbiddenHandlers
from broker_store.process.parts.configuration import Configuration
from gantry_wire.bodies import fastjson
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command

CONFIG = "/store/config"


class ConfigSide(LeasingSide):
    """Everything that changes configuration."""

    def build_rest(self) -> StoreListeners:
        listeners = super().build_rest()
        self.configuration = Configuration(
            self.around, self.store, self.foundation, self.sending, self.halves.group_records, self.config
        )
        return listeners

    def begin_records(self) -> None:
        self.table.add_all(ConfigurationHandlers(self.configuration.changes).commands())
        self.table.add_all(ForbiddenHandlers(self.consuming.groups, self.halves.group_records).commands())
        self.configuration.begin()

    async def asked_for(self, code: int, header: Any = None, body: bytes = b"") -> Command:
        """Send a request, flush what it writes, and return its answer."""
        peer = ScriptedPeer()
        self.ask(peer, code, header, body)
        async with asyncio.timeout(30):
            while not peer.answers:
                self.flush()
                await asyncio.sleep(0)
        return peer.answers[0]

    async def make_topic(self, name: str, queues: int = 4) -> Command:
        return await self.asked_for(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(name, queues))

    async def delete_topic(self, name: str) -> Command:
        return await self.asked_for(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})

    async def make_group(self, name: str, tries: int = 16) -> Command:
        body = b'{"groupName":"%s","retryMaxTimes":%d}' % (name.encode(), tries)
        return await self.asked_for(200, body=body)

    async def delete_group(self, name: str) -> Command:
        return await self.asked_for(207, {"groupName": name})

    async def forbid(self, group: str, topic: str) -> Command:
        return await self.asked_for(353, {"group": group, "topic": topic, "readable": "false"})

    async def set(self, text: str) -> Command:
        return await self.asked_for(25, body=text.encode())

    async def export(self) -> None:
        """Write the files, as an orderly stop does."""
        await self._flushing(self.configuration.save())

    async def stop(self) -> None:
        """Stop in order."""
        self.flush()
        await self._flushing(self.consuming.stop())
        await self._flushing(self.leasing.close())
        await self.export()
        await self._flushing(self.sending.checkpoints.close())
        self.log.close()

    async def _flushing(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        async with asyncio.timeout(30):
            while not task.done():
                self.flush()
                await asyncio.sleep(0.001)
        await task

    # --- what counts ---

    def config_state(self) -> dict[str, Any]:
        """Return all tables as plain values."""
        groups = self.foundation.reading.groups.wrapper()
        return {
            "topics": {
                name: config.write_queue_nums
                for name, config in self.topics.all().items()
                if not self.topics.is_system(name)
            },
            "groups": {
                name: group.retry_max_times for name, group in groups.subscription_group_table.items()
            },
            "forbidden": dict(groups.forbidden_table),
            "settings": dict(self.config.kept),
        }

    def file(self, name: str) -> Any:
        content = self.files.read_bytes(f"{CONFIG}/{name}")
        return None if content is None else fastjson.loads(content)

    def edit(self, name: str, content: Any) -> None:
        """Write a file by hand."""
        write(self.files, name, content if isinstance(content, bytes) else fastjson.dumps(content))


def write(files: Any, name: str, content: bytes) -> None:
    """Write a configuration file durably."""
    files.replace_atomically(f"{CONFIG}/{name}", content)


def topic_fields(name: str, queues: int) -> dict[str, str]:
    """Return the fields of request 17."""
    return {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "",
    }  # fmt: skip
