"""The listen address of a process: its text form and the address to advertise."""

import socket
from typing import Protocol

EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared only
EVERY_ADDRESS = "::"
"""IPv4 and IPv6, whatever the system's default for IPv6 sockets."""
LOOPBACK = "127.0.0.1"


def joined(host: str, port: int) -> str:
    """Return `host:port`; an IPv6 address gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(text: str, port: int = 0) -> tuple[str, int]:
    """Return the parts of `host:port`; of a host alone with this port, if it is given. Raises ValueError."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, number = text, str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (number.isascii() and number.isdigit()) or not 0 < int(number) <= 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host, int(number)


class ListeningSocket(Protocol):
    """The form of `listening_socket`."""

    def __call__(self, host: str, port: int, *, backlog: int, reuse_port: bool = False) -> socket.socket:
        """Return a listening, non-blocking socket. Raises OSError."""
        ...


def listening_socket(host: str, port: int, *, backlog: int, reuse_port: bool = False) -> socket.socket:
    """Return a listening, non-blocking socket (uvloop accepts until the kernel has no more). Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if host == EVERY_ADDRESS:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def reachable_address(listen: str) -> str:
    """Return `listen`, or for a wildcard address the one this machine sends from.

    In a container that is the container's own address. Without a network it is 127.0.0.1.
    """
    if listen not in EVERYWHERE:
        return listen
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(
                ("192.0.2.1", 9)
            )  # a documentation address; connecting a datagram socket sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK
