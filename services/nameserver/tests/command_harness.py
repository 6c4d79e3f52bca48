"""A nameserver's commands without sockets: files in memory, a manual clock, recorded changes."""

import asyncio

from registrations import Core

from gantry_wire.frames.command import Command
from nameserver.handlers import COMMANDS, Commands
from nameserver.kv_config import KvConfig
from nameserver.run_config import RunConfig
from nameserver.settings import NameserverSettings


class MemoryKeeper:
    """Keeps content in memory; `failure` makes writes fail."""

    def __init__(self):
        self.contents, self.failure = [], None

    def write(self, content):
        self.contents.append(content())
        done = asyncio.get_running_loop().create_future()
        done.set_exception(self.failure) if self.failure else done.set_result(None)
        return done


class CommandHarness:
    """The commands and everything they use."""

    def __init__(self, **settings):
        made = NameserverSettings(**settings)
        self.core, self.changes = Core(), []
        self.core.switches = made.switches()
        config = RunConfig(made, self.core.switches)
        self.kv_keeper, self.config_keeper = MemoryKeeper(), MemoryKeeper()
        self.commands = Commands(
            registry=self.core.registry,
            orders=self.core.orders,
            views=self.core.views,
            kv=KvConfig(),
            kv_keeper=self.kv_keeper,
            config=config,
            config_keeper=self.config_keeper,
            now_ms=lambda: self.core.now_ms,
            act=self.changes.append,
            started_ms=self.core.now_ms,
        )

    def ask(self, code, fields=None, body=b"", version=479, channel=1):
        command = Command(code=code, version=version, fields=fields, body=body)
        return COMMANDS[code](self.commands, command, channel)
