"""The tables of rights as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from gantry_access.rights.grpc_table import METHODS
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS
from gantry_access.rights.request_table import REQUESTS
from gantry_wire.codes import GantryCode, RequestCode

_NAMES = {int(code): code.name for code in (*RequestCode, *GantryCode)}


def rights_tables() -> str:
    """Return one Markdown table per way in: remoting, the gateway's HTTP, the other HTTP ports, gRPC."""
    remoting = ((f"{code} {_NAMES[code]}", REQUESTS[code].text) for code in sorted(REQUESTS))
    gateway = ((f"`{method} {path}`", found.text) for (method, path), found in GATEWAY.items())
    own = (
        (f"{service}: `{method} {path}`", found.text)
        for service, table in OWN_PORTS.items()
        for (method, path), found in table.items()
    )
    methods = ((method, found.text) for method, found in METHODS.items())
    tables = (
        ("request", remoting),
        ("route", gateway),
        ("route of another port", own),
        ("gRPC method", methods),
    )
    return "\n".join(_table(head, rows) for head, rows in tables)


def _table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head} | needs |", "|---|---|", *(f"| {asked} | {needs} |" for asked, needs in rows)]
    return "\n".join(lines) + "\n"
