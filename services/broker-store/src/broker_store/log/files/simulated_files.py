# ruff: noqa: ARG002, D102 - the Protocols in `files` say what the operations promise
"""A disk in memory that can crash, fill up and fail: the `Files` interface for tests and proofs.

It separates what programs see (the page cache) from what the device certainly holds, and enumerates every
state a power cut may leave: each sector old, new, or as of any write between; names as of any point since
their last sync.
"""

import errno
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from broker_store.log.files.crash_states import CrashStates, Inode
from broker_store.log.files.files import Data

_BLOCK_BYTES = 4096
_BLANK = bytes(_BLOCK_BYTES)


@dataclass
class Fault:
    """The next operations of this name on paths that contain `part` fail: `count` of them after `skip`."""

    operation: str
    error: int
    part: str = ""
    skip: int = 0
    count: int = 1


class SimulatedFile:
    """One open file of a simulated disk."""

    def __init__(self, files: "SimulatedFiles", path: str, inode: Inode) -> None:
        self.path = path
        self._files = files
        self._inode = inode

    def pwritev(self, buffers: Sequence[Data], position: int) -> None:
        self.pwrite(b"".join(buffers), position)

    def pwrite(self, data: Data, position: int) -> None:
        self._files.step("pwrite", self.path)
        room = self._files.allocate(self._inode, position, len(data))
        if room:
            seen = self._inode.seen
            seen.extend(bytes(max(position + room - len(seen), 0)))
            seen[position : position + room] = data[:room]
            self._inode.changed(position, position + room)
        if room < len(data):
            raise OSError(errno.ENOSPC, "no space left on device", self.path)

    def pread(self, size: int, position: int) -> bytes:
        self._files.step("pread", self.path)
        return bytes(self._inode.seen[position : position + size])

    def pread_nowait(self, size: int, position: int) -> bytes | None:
        data = self.pread(size, position)
        return data if len(data) == size and not self._files.is_cold else None

    def sync(self) -> None:
        try:
            self._files.step("sync", self.path)
        except OSError:
            self._inode.forget_unsynced()
            raise
        self._inode.synced()

    def zero(self, start: int, size: int) -> None:
        self.pwrite(bytes(size), start)

    def truncate(self, size: int) -> None:
        self._files.step("truncate", self.path)
        seen = self._inode.seen
        before = len(seen)
        del seen[size:]
        seen.extend(bytes(size - len(seen)))
        self._inode.blocks = {block for block in self._inode.blocks if block * _BLOCK_BYTES < size}
        self._inode.changed(min(size, before), max(size, before))

    def next_data(self, position: int) -> int | None:
        seen = self._inode.seen
        return next((at for at in range(position, len(seen), _BLOCK_BYTES) if _has_data(seen, at)), None)

    def drop_cached(self, start: int, size: int) -> None:
        seen = self._inode.seen
        if not self._inode.sizes:
            end = min(start + size, len(seen))
            seen[start:end] = self._inode.durable[start:end].ljust(max(end - start, 0), b"\0")

    def size(self) -> int:
        return len(self._inode.seen)

    def is_at(self, path: str) -> bool:
        return self._files.names(path, self._inode)

    def close(self) -> None:
        pass


class SimulatedFiles:
    """A simulated disk. `trace` lists every operation, each of `faults` occurs once, and `capacity` bytes may be used."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.trace: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.is_cold = False
        """Whether `pread_nowait` finds nothing in the cache."""
        self.crash_after: int | None = None
        """Steps that still succeed before every operation raises Crashed."""
        self.now_ms = 0
        self._names: dict[str, Inode] = {}
        self._directories: set[str] = {"/"}
        self._durable_names: dict[str, Inode] = {}
        self._name_versions: dict[str, list[dict[str, Inode]]] = {}
        self._syncing = threading.Lock()
        """Several threads of a store sync directories."""

    # --- the interface -------------------------------------------------------------------------------------

    def open(self, path: str, create_bytes: int | None = None) -> SimulatedFile:
        self.step("open", path)
        inode = self._names.get(path)
        if inode is None:
            if create_bytes is None:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._require_directory(path)
            inode = self._names[path] = Inode(modified_ms=self.now_ms)
            self._name_changed(path)
        file = SimulatedFile(self, path, inode)
        if create_bytes is not None and len(inode.seen) < create_bytes:
            file.truncate(create_bytes)
        return file

    def names(self, path: str, inode: Inode) -> bool:
        """Whether a path names this file."""
        return self._names.get(path) is inode

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def size(self, path: str) -> int:
        return len(self._inode(path).seen)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, now_ms: int) -> None:
        self._inode(path).modified_ms = now_ms

    def listdir(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        entries = [entry for entry in (*self._names, *self._directories) if entry.startswith(prefix)]
        return sorted({entry[len(prefix) :].partition("/")[0] for entry in entries})

    def make_dirs(self, path: str) -> None:
        self._directories.update((path, *(str(parent) for parent in PurePosixPath(path).parents)))

    def rename(self, path: str, new_path: str) -> None:
        self.step("rename", path)
        self._names[new_path] = self._names.pop(path)
        self._name_changed(new_path)

    def remove(self, path: str) -> None:
        self.step("remove", path)
        if self._names.pop(path, None) is not None:
            self._name_changed(path)

    def remove_dir(self, path: str) -> None:
        for name in [name for name in self._names.copy() if name.startswith(path + "/")]:
            self.remove(name)
        self._directories = {entry for entry in self._directories if not (entry + "/").startswith(path + "/")}

    def link(self, path: str, new_path: str) -> None:
        self.step("link", path)
        self._require_directory(new_path)
        self._names[new_path] = self._inode(path)
        self._name_changed(new_path)

    def sync_all(self, path: str) -> None:
        for name, inode in sorted(self._names.copy().items()):
            SimulatedFile(self, name, inode).sync()
        for directory in sorted(self._directories):
            self.sync_dir(directory)

    def sync_dir(self, path: str) -> None:
        self.step("sync_dir", path)
        prefix = path.rstrip("/") + "/"
        with self._syncing:
            kept = {
                name: inode
                for name, inode in self._durable_names.items()
                if _parent(name) != prefix and not self._is_removed_below(name, prefix)
            }
            # copied first: another thread may add a name meanwhile
            kept.update(
                {name: inode for name, inode in self._names.copy().items() if _parent(name) == prefix}
            )
            self._durable_names = kept
            for changed in [prefix, *self._name_versions]:
                if changed == prefix or self._is_removed_below(changed, prefix):
                    self._name_versions.pop(changed, None)

    def _is_removed_below(self, name: str, prefix: str) -> bool:
        """Whether a name lies in a removed directory below this one: with its entry, all in it is gone."""
        return name.startswith(prefix) and _parent(name)[:-1] not in self._directories

    def read_bytes(self, path: str) -> bytes | None:
        self.step("pread", path)
        inode = self._names.get(path)
        return None if inode is None else bytes(inode.seen)

    def replace_atomically(self, path: str, content: bytes) -> None:
        file = self.open(f"{path}.tmp", 0)
        file.truncate(0)
        file.pwrite(content, 0)
        file.sync()
        self.rename(f"{path}.tmp", path)
        self.sync_dir(str(PurePosixPath(path).parent))

    def used_bytes(self) -> int:
        """Return the bytes of all blocks that files have."""
        inodes = {id(inode): inode for inode in self._names.copy().values()}
        return sum(len(inode.blocks) for inode in inodes.values()) * _BLOCK_BYTES

    def free_bytes(self, path: str) -> int:
        return max(self.capacity - self.used_bytes(), 0)

    def total_bytes(self, path: str) -> int:
        return self.capacity

    # --- faults --------------------------------------------------------------------------------------------

    def step(self, operation: str, path: str) -> None:
        """Record an operation, or fail it as configured."""
        if self.crash_after is not None:
            if self.crash_after == 0:
                raise Crashed(operation, path)
            self.crash_after -= 1
        for fault in self.faults:
            if fault.operation == operation and fault.part in path and fault.count:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.count -= 1
                raise OSError(fault.error, f"injected at {operation}", path)
        self.trace.append((operation, path))

    def allocate(self, inode: Inode, position: int, size: int) -> int:
        """Take blocks for a write. Returns how many of its bytes have room."""
        blocks = range(position // _BLOCK_BYTES, -(-(position + size) // _BLOCK_BYTES))
        missing = [block for block in blocks if block not in inode.blocks]
        free = max(self.capacity - self.used_bytes(), 0) // _BLOCK_BYTES if missing else 0
        inode.blocks.update(missing[:free])
        return max(missing[free] * _BLOCK_BYTES - position, 0) if len(missing) > free else size

    def content(self, path: str) -> bytes:
        """Return the content of a file without a step, nothing if it is missing."""
        inode = self._names.get(path)
        return b"" if inode is None else bytes(inode.seen)

    def flip(self, path: str, position: int, mask: int) -> None:
        """Damage a byte on the device and in the cache."""
        self._inode(path).flip(position, mask)

    def write_at(self, path: str, position: int, data: bytes) -> None:
        """Put bytes onto the device, bypassing every rule."""
        inode = self._inode(path)
        inode.seen[position : position + len(data)] = data
        inode.changed(position, position + len(data))
        inode.synced()

    # --- crashes -------------------------------------------------------------------------------------------

    def killed(self) -> "SimulatedFiles":
        """Return the disk as a new process finds it after `kill -9`: everything written is there."""
        return self._copy({name: bytes(inode.seen) for name, inode in self._names.copy().items()})

    def crash_states(self, states_max: int, seed: int = 0) -> Iterator["SimulatedFiles"]:
        """Yield disks that a power cut may leave now: all of them if there are at most states_max, else a sample.

        The sample holds the extremes (nothing unsynced survived, all of it did) and random mixtures.
        """
        states = CrashStates(self._name_choices(), states_max, seed)
        for number in range(len(states)):
            yield self._copy(states.state(number))

    def crash_state(self, states_max: int, seed: int) -> "SimulatedFiles":
        """Return one disk of those that `crash_states` yields; `seed` also chooses which."""
        states = CrashStates(self._name_choices(), states_max, seed)
        return self._copy(states.state(seed % len(states)))

    def _copy(self, contents: dict[str, bytes]) -> "SimulatedFiles":
        copy = SimulatedFiles(self.capacity)
        copy.now_ms = self.now_ms
        copy._directories = set(self._directories)
        for name, content in contents.items():
            blocks = {
                at // _BLOCK_BYTES for at in range(0, len(content), _BLOCK_BYTES) if _has_data(content, at)
            }
            inode = Inode(
                bytearray(content), bytearray(content), blocks=blocks, modified_ms=self._modified(name)
            )
            copy._names[name] = copy._durable_names[name] = inode
        return copy

    def _modified(self, name: str) -> int:
        inode = self._names.get(name)
        return inode.modified_ms if inode else self.now_ms

    def _name_choices(self) -> list[dict[str, Inode]]:
        choices = [self._durable_names]
        for prefix, versions in self._name_versions.items():
            choices = [
                {**{name: inode for name, inode in names.items() if _parent(name) != prefix}, **entries}
                for names in choices
                for entries in (
                    {n: i for n, i in self._durable_names.items() if _parent(n) == prefix},
                    *versions,
                )
            ]
        return choices

    def _name_changed(self, path: str) -> None:
        prefix = path.rpartition("/")[0] + "/"
        entries = {name: inode for name, inode in self._names.copy().items() if _parent(name) == prefix}
        self._name_versions.setdefault(prefix, []).append(entries)

    def _require_directory(self, path: str) -> None:
        if path.rpartition("/")[0] not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def _inode(self, path: str) -> Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode


class Crashed(BaseException):
    """The simulated machine lost power. Only the test may catch this."""


def _has_data(content: Data, at: int) -> bool:
    """Whether the block at this position holds other bytes than zeros."""
    return not _BLANK.startswith(content[at : at + _BLOCK_BYTES])


@lru_cache(maxsize=4096)
def _parent(name: str) -> str:
    """Return the directory of a file, with the slash. Cached: each sync of a directory asks for all files."""
    return name[: name.rindex("/") + 1]
