"""Which host a peer may say that it is reached at: the one its connection comes from. Pure.

What a peer names, others connect to. So a peer may name itself, at any port, and nobody else. A process of this machine may name any
host, as it may know this machine by another name.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from gantry_link.connection import split_address
from gantry_link.errors import NotConnected


def names_itself(address: str, remote_host: str) -> bool:
    """Whether "host:port" lies on the host that a connection comes from, or the connection comes from this machine."""
    remote = _ip(remote_host)
    if remote is None or remote.is_loopback:
        return remote is not None
    try:
        return _ip(split_address(address)[0]) == remote
    except NotConnected:
        return False


def vouched_address(address: str, remote_host: str) -> str:
    """Return "host:port" where the host is the one a connection comes from, whatever host it names; empty when there is none."""
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


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
