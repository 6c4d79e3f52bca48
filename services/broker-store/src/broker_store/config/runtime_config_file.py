"""Keeps the changes of code 25 in config/broker.properties: `key=value` lines with RocketMQ's keys, written at each change.

A start applies them over all other settings and logs them. The operator's file, given with -c, is never
written.
"""

from collections.abc import Callable, Mapping
from pathlib import PurePath

from broker_store.config.broker_config import BrokerConfig
from broker_store.config.saver import Saver
from broker_store.log.files.files import Files
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.errors import MalformedBody

FILE = "broker.properties"
_HEAD = b"# Settings changed while the broker ran. They go over broker.conf; a line that is removed is forgotten at the next start.\n"

_log = get_logger()


class RuntimeConfigFile:
    """The file of one broker."""

    def __init__(self, config: BrokerConfig, files: Files, directory: str, thread: Workers) -> None:
        self.config = config
        self._files = files
        self.path = f"{directory}/{FILE}"
        self._saver = Saver(self.path, self._content, self._store, thread)

    def restore(self) -> None:
        """Apply the file's content. Blocks for a read: call it before serving."""
        content = self._files.read_bytes(self.path)
        if content is not None:
            self._take(content)

    def update(self, changes: Mapping[str, str], answer: Callable[[OSError | None], None]) -> None:
        """Change settings, all or none, and call back once they will survive a restart. Raises RefusedRequest."""
        self.config.update(changes)
        self._saver.changed()
        self._saver.when_saved(answer)

    async def close(self) -> None:
        """Wait until everything is saved."""
        await self._saver.close()

    def _take(self, content: bytes) -> None:
        try:
            kept = parse_config_text(content)
        except MalformedBody as error:
            _log.error(
                "changed settings cannot be read; the settings of this start apply",
                path=self.path,
                reason=str(error),
            )
            return
        refused = self.config.restore(kept)
        if self.config.kept:
            _log.info("settings changed before the restart apply again", path=self.path, **self.config.kept)
        for key, why in refused.items():
            _log.warning("a changed setting cannot be applied", path=self.path, key=key, reason=why)

    def _content(self) -> bytes:
        return _HEAD + format_config_text(dict(sorted(self.config.kept.items())))

    def _store(self, content: bytes) -> None:
        self._files.make_dirs(str(PurePath(self.path).parent))
        self._files.replace_atomically(self.path, content)
