"""`gantrymq doctor`: checks the path from here to every advertised address, and names what is wrong and how to fix it."""

import asyncio
from pathlib import Path
from typing import Any

import typer

from gantrymq.cli.session import Session, command
from gantrymq.cli.shapes import counted
from gantrymq.cli.stops import UNREACHABLE, Stop


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor", "gantrymq doctor\ngantrymq doctor --http http://broker.example:8080 --json")(
        doctor
    )


def doctor(session: Session) -> None:
    """Check the path from here to the gateway, the nameservers, and each broker's advertised address."""
    from gantrymq.cli.examining import examine, exposure
    from gantrymq.cli.replicas_seen import replica_findings

    findings = asyncio.run(examine(session.calls))
    if session.data is not None:
        findings += replica_findings(_brokers(session.data))
    screen, access = session.screen, exposure(findings) if findings[0].is_well else ""

    def people() -> None:
        rows = [
            (
                one.part,
                one.address,
                "ok" if one.is_well else "WRONG",
                f"{one.took_ms:.0f} ms" if one.is_well else "",
            )
            for one in findings
        ]
        screen.table(("part", "address", "state", "took>"), rows)
        if access:
            screen.line(access)
        for one in findings:
            if not one.is_well:
                screen.line(
                    f"\n{screen.paint(f'{one.part} {one.address}', 'bold')}: {one.words}\n  {one.remedy}"
                )

    bad = [one for one in findings if not one.is_well]
    opened = [one.address for one in findings if one.is_open]
    screen.show({"healthy": not bad, "open": opened, "checks": [one.shown() for one in findings]}, people)
    if bad:
        raise Stop(f"{len(bad)} of {counted(len(findings), 'check')} failed", UNREACHABLE)
    screen.say("all is well")


def _brokers(data: Path) -> list[dict[str, Any]]:
    """Return what the launcher of a data directory lists; nothing if it ended just now."""
    from gantrymq.systems.checkout import SystemFailed, status_of

    try:
        state = status_of(data.absolute())
    except SystemFailed:
        return []
    brokers: list[dict[str, Any]] = state["brokers"]
    return brokers
