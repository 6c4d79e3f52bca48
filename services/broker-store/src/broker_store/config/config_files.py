"""config/*.json in RocketMQ's format: read with a fallback to .bak, replaced atomically. Knows no field's meaning."""

import threading
from collections.abc import Callable
from pathlib import PurePath

from broker_store.log.files.files import Files
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.cluster import DataVersion
from gantry_wire.errors import WireError

_log = get_logger()


class ConfigFile:
    """One configuration file. Its previous content is kept in `<file>.bak`, as in RocketMQ."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.has_lost_newest = False
        """Whether the last `load` had to do without the file itself: it is missing or damaged."""
        self._is_reported = False
        self._lock = threading.Lock()  # a flush in a thread and one at shutdown must not share the .tmp file

    def load(self) -> object | None:
        """Return the content; that of the .bak, with a log message, when the file is missing or damaged; None without either.

        If both are damaged the start continues: what the log knows is recreated from it. A second load, as of a rebuild, reports nothing.
        """
        value = self._load(self.path, reports=not self._is_reported)
        self.has_lost_newest = value is None
        if value is None:
            value = self._load(f"{self.path}.bak", reports=not self._is_reported)
            if value is not None and not self._is_reported:
                _log.warning("configuration read from its backup", path=self.path)
        self._is_reported = True
        return value

    def exists(self) -> bool:
        """Whether the file or its backup exists: it was saved before."""
        return self._files.exists(self.path) or self._files.exists(f"{self.path}.bak")

    def load_backup(self) -> object | None:
        """Return the content of the .bak, None when it cannot be read."""
        return self._load(f"{self.path}.bak", reports=True)

    def _load(self, path: str, *, reports: bool) -> object | None:
        content = self._files.read_bytes(path)
        if content is None:
            return None
        try:
            return fastjson.loads(content)
        except (WireError, ValueError) as error:
            if reports:
                _log.error("configuration file is damaged", path=path, error=str(error))
            return None

    def store(self, value: object) -> None:
        """Write `value`.

        Durable on return. Blocks: call it in a thread. Raises OSError and then keeps the old content.
        """
        self.store_bytes(fastjson.dumps(value))

    def store_bytes(self, content: bytes, is_backup: Callable[[bytes], bool] | None = None) -> None:
        """As `store`, for JSON bytes.

        The previous content becomes the backup if `is_backup` says so, or if it is intact.
        """
        with self._lock:
            self._files.make_dirs(str(PurePath(self.path).parent))
            previous = self._files.read_bytes(self.path)
            if previous is not None and previous != content and (is_backup or _is_whole)(previous):
                self._files.replace_atomically(f"{self.path}.bak", previous)
            self._files.replace_atomically(self.path, content)

    def remove(self) -> None:
        """Remove the file and its backup. Durable on return. Blocks; raises OSError."""
        with self._lock:
            for path in (f"{self.path}.bak", self.path):
                self._files.remove(path)
            self._files.sync_dir(str(PurePath(self.path).parent))


class DataVersionCounter:
    """The DataVersion of a table: raised at each change. Nameservers and tools compare it for equality."""

    def __init__(self, now_ms: Callable[[], int], value: DataVersion | None = None) -> None:
        self._now_ms = now_ms
        self.value = value or DataVersion(counter=0, state_version=0, timestamp=now_ms())

    def bump(self) -> None:
        """Count a change."""
        self.value = DataVersion(
            counter=self.value.counter + 1, state_version=self.value.state_version, timestamp=self._now_ms()
        )

    def take_over(self, value: DataVersion) -> None:
        """Continue from another version."""
        self.value = value

    def continue_after(self, counter: int) -> None:
        """Let the next change have a greater counter than `counter`."""
        if self.value.counter < counter:
            self.value = DataVersion(
                counter=counter, state_version=self.value.state_version, timestamp=self._now_ms()
            )


def _is_whole(content: bytes) -> bool:
    """Whether content may become the backup: a damaged file must not replace a good backup."""
    try:
        fastjson.loads(content)
    except (WireError, ValueError):
        return False
    return True
