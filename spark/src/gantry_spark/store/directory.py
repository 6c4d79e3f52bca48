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


def find(paths: Sequence[str], http: Mapping[str, str] | None = None) -> tuple[StoreDirectory, ...]:
    """Return the stores that paths name, in order of their broker names.

    A path is a store (it has `commitlog/`) or a data directory whose folders are stores. NAME=PATH names a store's broker; otherwise it
    is the name of its folder. `http` has addresses of running stores by broker name. Raises NotAStore.
    """
    found: dict[str, StoreDirectory] = {}
    for path in paths:
        for store in _stores_of(path, http or {}):
            if (other := found.get(store.broker)) is not None and other.path != store.path:
                words = f"two stores are called {store.broker}: {other.path} and {store.path}; name one as NAME=PATH"
                raise NotAStore(words)
            found[store.broker] = store
    if not found:
        raise NotAStore("no path was given: name a store's directory or the data directory of a system")
    return tuple(found[name] for name in sorted(found))


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


def _stores_of(path: str, http: Mapping[str, str]) -> list[StoreDirectory]:
    name, is_named, named_path = path.partition("=")
    if not is_named or Path(path).exists():
        name, named_path = "", path
    folder = Path(named_path).expanduser()
    if not folder.is_dir():
        raise NotAStore(f"{named_path} is not a directory")
    folder = folder.resolve()
    if (folder / "commitlog").is_dir():
        return [_store(name or folder.name, folder, http)]
    stores = [child for child in sorted(folder.iterdir()) if (child / "commitlog").is_dir()]
    if not stores and (replicas := sorted(path.parent for path in folder.glob("broker-?/?/commitlog"))):
        raise NotAStore(
            f"the brokers of {folder} have replicas: name one of each, of a running broker its leader (./gantry status), "
            f"as {replicas[0].parent.name}={replicas[0]}"
        )
    if not stores:
        raise NotAStore(f"{folder} is not a store (it has no commitlog/) and contains none")
    return [_store(name if name and len(stores) == 1 else child.name, child, http) for child in stores]


def _store(broker: str, folder: Path, http: Mapping[str, str]) -> StoreDirectory:
    runs = is_running(str(folder))
    address = (http.get(broker) or _address_from_launcher(folder)) if runs else None
    return StoreDirectory(broker, str(folder), address, runs)


def _address_from_launcher(folder: Path) -> str | None:
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
