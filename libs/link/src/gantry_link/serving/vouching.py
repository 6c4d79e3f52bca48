"""Checks the address that a peer reports for itself: only the host of its connection is accepted. Pure.

Others connect to the reported address, so a peer may report only its own host, with any port. A local process may report any host,
because it may know this machine by another name.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from gantry_link.connections.connection import split_address
from gantry_link.errors import NotConnected


def names_itself(address: str, remote_host: str) -> bool:
    """Return whether the host of "host:port" is that of the connection, or the connection is from this machine."""
    remote = _ip(remote_host)
    if remote is None or remote.is_loopback:
        return remote is not None
    try:
        return _ip(split_address(address)[0]) == remote
    except NotConnected:
        return False


def vouched_address(address: str, remote_host: str) -> str:
    """Return `address`, with the host of the connection in place of another one; empty if there is no valid address."""
    try:
        port = split_address(address)[1]
    except NotConnected:
        return ""
    if names_itself(address, remote_host):
        return address
    remote = _ip(remote_host)
    if remote is None:
        return ""
    return f"[{remote}]:{port}" if remote.version == 6 else f"{remote}:{port}"


@lru_cache(256)
def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
