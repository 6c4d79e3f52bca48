"""config/*.json in RocketMQ's shapes: read with the .bak behind them, replaced atomically. Knows no meaning of a field."""

import threading
from collections.abc import Callable
from pathlib import PurePath

from broker_store.log.files import Files
from gantry_chassis.logs import get_logger
from gantry_wire import fastjson
from gantry_wire.bodies import DataVersion
from gantry_wire.errors import WireError

_log = get_logger()


class ConfigFile:
    """One configuration file. Its previous content is kept in `<file>.bak`, as RocketMQ does."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._lock = threading.Lock()  # a flush in a thread and one at shutdown must not share the .tmp file

    def load(self) -> object | None:
        """Return the content; the .bak's, said aloud, when the file is missing or damaged; None when neither is there.

        Both being damaged is no reason to refuse the start: what the log knows is made again from it.
        """
        value = self._load(self.path)
        if value is None and (value := self.load_backup()) is not None:
            _log.warning("configuration read from its backup", path=self.path)
        return value

    def load_backup(self) -> object | None:
        """Return the content of the .bak; None when there is none that can be read."""
        return self._load(f"{self.path}.bak")

    def _load(self, path: str) -> object | None:
        content = self._files.read_bytes(path)
        if content is None:
            return None
        try:
            return fastjson.loads(content)
        except (WireError, ValueError) as error:
            _log.error("configuration file is damaged", path=path, error=str(error))
            return None

    def store(self, value: object) -> None:
        """Write `value`; durable on return. Blocks: call it in a thread. A failure is an OSError and leaves the old content."""
        self.store_bytes(fastjson.dumps(value))

    def store_bytes(self, content: bytes, is_backup: Callable[[bytes], bool] | None = None) -> None:
        """As `store`, for content that is JSON already. The previous content becomes the backup where `is_backup` says so, or where it is whole."""
        with self._lock:
            self._files.make_dirs(str(PurePath(self.path).parent))
            previous = self._files.read_bytes(self.path)
            if previous is not None and previous != content and (is_backup or _is_whole)(previous):
                self._files.replace_atomically(f"{self.path}.bak", previous)
            self._files.replace_atomically(self.path, content)


class DataVersionCounter:
    """The DataVersion of a table: raised at each change, compared for equality by nameservers and tools."""

    def __init__(self, now_ms: Callable[[], int], value: DataVersion | None = None) -> None:
        self._now_ms = now_ms
        self.value = value or DataVersion(counter=0, state_version=0, timestamp=now_ms())

    def bump(self) -> None:
        """Count a change."""
        self.value = DataVersion(
            counter=self.value.counter + 1, state_version=self.value.state_version, timestamp=self._now_ms()
        )


def _is_whole(content: bytes) -> bool:
    """Whether content may become the backup: a damaged file must not push a good backup out."""
    try:
        fastjson.loads(content)
    except (WireError, ValueError):
        return False
    return True
