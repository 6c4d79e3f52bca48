"""Refuses to start a service that other machines can reach while it lets everybody in."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused

LOCALHOST = "localhost"

_log = get_logger()


def refuse_exposure(listens: Iterable[str], *, is_guarded: bool, is_insecure: bool) -> None:
    """Raise StartRefused if a port is to listen beyond this machine without access control.

    `listens`: the addresses of all ports. `is_insecure`: start nevertheless, and log it.
    """
    if is_guarded:
        return
    exposed = sorted({host for host in listens if not is_loopback(host)})
    if not exposed:
        return
    where = ", ".join(host or "every address" for host in exposed)
    if not is_insecure:
        raise StartRefused(
            f"it would listen on {where} without access control, so that any machine that reaches it may read and change everything. "
            "Either switch access control on (type: ./gantry access init, then start again; it sets access_key_file), "
            "or set insecure=true"
        )
    _log.warning(
        "insecure=true: no access control: any machine that reaches this service may read and change everything",
        listen=where,
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on an address: 127.0.0.0/8, ::1 or localhost. Other names are not resolved."""
    if host.lower() == LOCALHOST:
        return True
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return found.is_loopback
