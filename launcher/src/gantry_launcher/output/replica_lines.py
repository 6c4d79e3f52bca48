"""Says in lines who leads a broker and what its replicas are, as `planning/roles.py` put it together."""

from collections.abc import Mapping
from typing import Any


def lines_of(broker: Mapping[str, Any]) -> list[str]:
    """Return in words who leads a broker, and a line for each replica; nothing without replicas."""
    replicas: list[dict[str, Any]] = broker.get("replicas", [])
    if not replicas:
        return []
    leader = broker["leader"]
    fault = f"; no answer of its register: {broker['registerFault']}" if broker["registerFault"] else ""
    lines = [f"{broker['name']}: {f'{leader} leads' if leader else 'no replica is known to lead'}{fault}"]
    for one in replicas:
        epoch = "-" if one["epoch"] is None else one["epoch"]
        behind = "" if one["name"] == leader else f"   behind by {_bytes(one['behindBytes'])}"
        unfit = "" if one.get("isFit") is not False else "   not fit to lead"
        lines.append(
            f"  {one['name']}  {one['role']:<9} epoch {epoch:<4} {one['address']:<21}{behind}{unfit}".rstrip()
        )
    return lines


def _bytes(count: int | None) -> str:
    return "an unknown number of bytes" if count is None else f"{count} bytes"
