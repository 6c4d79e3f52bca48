"""The address a process listens on: how it is written, what others are told, and whether there are others at all."""

import socket

from gantry_chassis.logs import get_logger

EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared only
EVERY_ADDRESS = "::"
"""IPv4 and IPv6, whatever the system's default for IPv6 sockets is."""
LOOPBACK = "127.0.0.1"
LOOPBACKS = ("127.", "::1", "localhost")

_log = get_logger()


def joined(host: str, port: int) -> str:
    """Return host and port as one text; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listening_socket(host: str, port: int, *, backlog: int, reuse_port: bool = False) -> socket.socket:
    """Return a socket that listens and does not block (uvloop accepts until the kernel says "no more"). Raises OSError."""
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
    """Return `listen`, or where that is every address, the one this machine's packets leave from.

    In a container that is the container's own address. 127.0.0.1 when there is no network.
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


def warn_if_open(listen: str) -> None:
    """Log that everybody may ask, where a remoting port is reached from other machines too."""
    if not listen.startswith(LOOPBACKS):
        words = "there is no access control: whoever reaches the remoting port may ask and change everything"
        _log.warning(words, listen=listen)
