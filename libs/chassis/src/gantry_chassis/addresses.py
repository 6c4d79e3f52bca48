"""Who reaches a process by the address it listens on: which one others are told, and whether there are others at all."""

import socket

from gantry_chassis.logs import get_logger

EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared only
LOOPBACK = "127.0.0.1"
LOOPBACKS = ("127.", "::1", "localhost")

_log = get_logger()


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
