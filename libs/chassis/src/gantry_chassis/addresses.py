"""Which address others reach this machine by, when it listens on all of them."""

import socket

EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared only
LOOPBACK = "127.0.0.1"


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
