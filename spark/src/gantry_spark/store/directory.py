"""Finds stores: a store's own directory, or the data directory of a whole system; and the addresses of running ones.

Checks whether a store's lock is held, and never takes it: a store that starts at this moment must not be refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gantry_spark.store import files as store_files
from gantry_spark.store.replicas import LEADER, addresses_of, of_files

_FLOCK: Final = struct.Struct("hhqqi")
"""struct flock of Linux on 64 bits: type, whence, start, length, process id."""
_PEER_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of SO_PEERCRED."""
_ASK_SECONDS_MAX: Final = 10.0


class NotAStore(ValueError):
    """A path contains no store; the text says what was expected."""


class StoreDirectory(NamedTuple):
    """A store: its broker name and its directory. `http` is its address while it runs, if known."""

    broker: str
    path: str
    http: str | None
    is_running: bool


class Places(NamedTuple):
    """A broker: its store, or the replicas that are known here, and the addresses that were given for them."""

    broker: str
    folders: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def has_replicas(self) -> bool:
        """Whether there is a choice. The directory of one replica is read as it is."""
        return len(self.folders) > 1

    def store(self, folder: str) -> StoreDirectory:
        """Return one of them. The launcher knows its address if none was given."""
        runs = is_running(folder)
        given = self.addresses[0] if len(self.addresses) == 1 and not self.has_replicas else None
        return StoreDirectory(
            self.broker, folder, (given or address_from_launcher(Path(folder))) if runs else None, runs
        )


def find(
    paths: Sequence[str], http: Mapping[str, str] | None = None, replica: str = LEADER
) -> tuple[StoreDirectory, ...]:
    """Return the stores that paths name, in order of their broker names; of a broker with replicas one, chosen by its files.

    Arguments as for `places`. `replica`: as `of_files`. Raises NotAStore.
    """
    return tuple(
        one.store(of_files(one.folders, replica) if one.has_replicas else one.folders[0])
        for one in places(paths, http)
    )


def places(paths: Sequence[str], http: Mapping[str, str] | None = None) -> tuple[Places, ...]:
    """Return the brokers that paths name, in order of their names.

    A path is a store (it has `commitlog/`) or a data directory whose folders are stores, or replicas of a broker in the folder of their
    broker. NAME=PATH names a store's broker; otherwise it is the name of its folder. `http` has addresses of running stores by broker name,
    those of replicas separated by `|`. Raises NotAStore.
    """
    found: dict[str, dict[str, None]] = {}
    for path in paths:
        for broker, folder in _folders_of(path):
            found.setdefault(broker, {})[str(folder)] = None
    if not found:
        raise NotAStore("no path was given: name a store's directory or the data directory of a system")
    for broker, folders in found.items():
        first, *others = folders
        if others and not any(map(store_files.replica, folders)):
            raise NotAStore(_unrelated(broker, first, others[0]))
    return tuple(
        Places(name, tuple(found[name]), addresses_of((http or {}).get(name, ""))) for name in sorted(found)
    )


def _unrelated(broker: str, first: str, second: str) -> str:
    """Return why two stores of one name, none of which knows a group, cannot both be read."""
    if Path(first).parent == Path(second).parent:
        return f"none of the replicas of {broker} knows its group: name one, as {broker}={first}"
    return f"two stores are called {broker}: {first} and {second}; name one as NAME=PATH"


def is_running(directory: str) -> bool:
    """Whether a broker, Gantry's or RocketMQ's, holds the lock of a store directory."""
    try:
        descriptor = os.open(f"{directory}/lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return False  # a file system without such locks: none can be held
    finally:
        os.close(descriptor)
    return kind != fcntl.F_UNLCK


def _folders_of(path: str) -> list[tuple[str, Path]]:
    """Return the stores that a path names, with their brokers."""
    name, is_named, named_path = path.partition("=")
    if not is_named or Path(path).exists():
        name, named_path = "", path
    folder = Path(named_path).expanduser()
    if not folder.is_dir():
        raise NotAStore(f"{named_path} is not a directory")
    folder = folder.resolve()
    if (folder / "commitlog").is_dir():
        return [(name or folder.name, folder)]
    stores = [child for child in sorted(folder.iterdir()) if (child / "commitlog").is_dir()]
    if stores and all(len(child.name) == 1 and store_files.replica(str(child)) for child in stores):
        return [(name or folder.name, child) for child in stores]  # the folder of one broker
    replicas = sorted(log.parent for log in folder.glob("broker-?/?/commitlog"))
    if not stores and not replicas:
        raise NotAStore(f"{folder} is not a store (it has no commitlog/) and contains none")
    found = [(child.name, child) for child in stores] + [(child.parent.name, child) for child in replicas]
    return [(name if name and len(found) == 1 else broker, child) for broker, child in found]


def address_from_launcher(folder: Path) -> str | None:
    """Ask the launcher of the surrounding data directory for a store's HTTP address. A replica lies in the folder of its broker."""
    for data in (folder.parent, folder.parent.parent):
        for broker in _status(data).get("brokers", []):
            for store in broker.get("replicas", [broker]):
                if Path(store["store"]).resolve() == folder:
                    return str(store["http"])
    return None


def _status(data: Path) -> dict[str, Any]:
    """Return the status from the launcher of a data directory, as `./gantry status --json` gets it; empty without one.

    Any local user may listen under this name: only the caller, root and the owner of the directory are trusted.
    """
    address = "\0gantry-" + hashlib.sha256(os.fsencode(data)).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(_ASK_SECONDS_MAX)
            connection.connect(address)
            size = _PEER_CREDENTIALS.size
            said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            _, user, _ = _PEER_CREDENTIALS.unpack(said)
            if user not in {os.getuid(), 0, data.stat().st_uid}:
                return {}
            connection.sendall(b"status\n")
            received = b""
            while not received.endswith(b"\n"):
                part = connection.recv(65536)
                if not part:
                    return {}
                received += part
            return json.loads(received)
        except (OSError, ValueError):
            return {}
