"""Chooses ports: well-known ones, from a base, or free ones. Checks all of them before anything starts."""

import contextlib
import errno
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from gantry_launcher.errors import Refused

# A store derives: fast port −2, HA +1, HTTP +2.
STORE_BLOCK = (-2, 0, 1, 2)
FREE_FROM = 15000
ATTEMPTS = 2000
PORT_IS_USED = {errno.EADDRINUSE, errno.EACCES}  # another port may do; any other error is the host's


class Ports:
    """Chooses ports and reserves them on this machine until closed."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self._hosts = tuple(dict.fromkeys(hosts))
        self._locks: dict[int, int] = {}
        self._taken: set[int] = set()

    def free(self, steps: tuple[int, ...] = (0,)) -> int:
        """Return a port that is free with its neighbours at `steps`, and reserve them all.

        The port lies below the range for outgoing connections, so that a restarted process finds it free.
        """
        highest = _ephemeral_start() - 10
        for _ in range(ATTEMPTS):
            port = random.randrange(FREE_FROM, highest)  # noqa: S311 - spreads launchers, hides nothing
            if all(self._reserve(port + step) for step in steps):
                return port
        raise Refused("found no free ports on this machine")

    def fixed(self, port: int, words: str, steps: tuple[int, ...] = (0,)) -> int:
        """Return `port` when it and its neighbours are free. Raises Refused with the port that is taken."""
        for step in steps:
            self._check(port + step, words)
        return port

    def release(self, port: int, steps: tuple[int, ...] = (0,)) -> None:
        """Forget a port and its neighbours: another process may get them."""
        for one in (port + step for step in steps):
            self._taken.discard(one)
            if (lock := self._locks.pop(one, None)) is not None:
                _unlock(one, lock)

    def close(self) -> None:
        """Release all reservations."""
        for port, lock in self._locks.items():
            _unlock(port, lock)
        self._locks.clear()

    def _reserve(self, port: int) -> bool:
        """Lock the file of a port that can be bound. Raises Refused when no port of a host can be bound."""
        if port in self._taken or (lock := _lock(port)) is None:
            return False
        for host in self._hosts:
            try:
                _try_bind(host, port)
            except OSError as error:
                _unlock(port, lock)
                if error.errno in PORT_IS_USED:
                    return False
                raise Refused(f"cannot listen on {host}: {error.strerror or error}") from error
        self._locks[port] = lock
        self._taken.add(port)
        return True

    def _check(self, port: int, words: str) -> None:
        if port in self._taken:
            raise Refused(f"port {port} is asked for twice (the second time by {words})")
        self._taken.add(port)
        for host in self._hosts:
            try:
                _try_bind(host, port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    way = "stop what uses it, or take --free-ports or --port-base N"
                    raise Refused(f"port {port} ({words}) on {host} is taken; {way}") from error
                raise Refused(
                    f"cannot listen on {host}:{port} ({words}): {error.strerror or error}"
                ) from error


def _try_bind(host: str, port: int) -> None:
    """Bind as the services do, and close. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        probe.listen(1)


def _lock(port: int) -> int | None:
    """Return the descriptor that holds the lock file of a port, or None while another launcher holds it."""
    try:
        path = _lock_folder() / str(port)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"cannot reserve ports in {error.filename}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A launcher that released the port between our open and our lock removed this file; our lock is then worthless.
        if os.fstat(lock).st_ino == path.stat().st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _unlock(port: int, lock: int) -> None:
    """Remove the lock file while we hold it, then release it."""
    with contextlib.suppress(OSError):
        (_lock_folder() / str(port)).unlink()
    os.close(lock)


def _lock_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"gantry-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _ephemeral_start() -> int:
    with contextlib.suppress(OSError, ValueError):
        start = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        if start > FREE_FROM + 2000:
            return start
    return 32768
