"""Open files by path, bounded: ten thousand queues must not need ten thousand descriptors."""

from collections import OrderedDict

from broker_store.log.files.files import File, Files
from broker_store.log.files.spare_descriptors import NO_DESCRIPTOR


class FilePool:
    """At most `open_max` files. The least recently used one is released first.

    For one thread. Files it returns stay usable in other threads until they drop them.
    """

    def __init__(self, files: Files, open_max: int = 256) -> None:
        self.files = files
        self._open_max = open_max
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str, create_bytes: int | None = None) -> File:
        """Return the file; open it if needed. With create_bytes, create it if missing."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        try:
            file = self.files.open(path, create_bytes)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not self._open:
                raise
            self._release_half()
            file = self.files.open(path, create_bytes)
        self._open[path] = file
        if len(self._open) > self._open_max:
            self._open.popitem(last=False)
        return file

    def _release_half(self) -> None:
        """Release descriptors: the process has none left."""
        for _ in range(len(self._open) // 2 + 1):
            self._open.popitem(last=False)

    def drop(self, path: str) -> None:
        """Forget a file, for example because it was deleted."""
        self._open.pop(path, None)

    def close(self) -> None:
        """Release all files."""
        self._open.clear()
