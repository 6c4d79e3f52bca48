"""Who leads each broker: what its replicas answer at `GET /v1/replication`, put together. Pure, but for `view_of`, which asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gantry_launcher.planning.health import Check, fetch

PATH = "/v1/replication"
LEADER = "leader"
UNKNOWN = "unknown"
"""The role of a replica that does not answer."""


@dataclass(frozen=True)
class View:
    """What one replica says about itself, and a leader about the others."""

    role: str
    epoch: int
    register_fault: str
    behind_bytes: Mapping[str, int]
    """How far the others are behind, by name; a leader knows."""
    is_fit: bool | None = None
    """Whether it is fit to lead. None: its version does not say so."""
    lost_bytes: int = 0
    """What it knows to be lost of its log, and fills from another replica."""


def view_of(check: Check, timeout_seconds: float) -> View | None:
    """Return what a replica says; None without an answer. Its health must have been asked before: that shows whether the port speaks TLS."""
    return read_view(fetch(check, PATH, timeout_seconds))


def read_view(body: Mapping[str, Any]) -> View | None:
    """Return what an answer says; None if it is none."""
    role, epoch, fault = body.get("role"), body.get("epoch"), body.get("registerFault", "")
    if not (isinstance(role, str) and role and isinstance(epoch, int) and isinstance(fault, str)):
        return None
    listed = body.get("replicas")
    others = cast("list[Any]", listed) if isinstance(listed, list) else []
    objects = [cast("dict[str, Any]", one) for one in others if isinstance(one, dict)]
    behind = {str(one.get("name")): one.get("behindBytes") for one in objects}
    known = {name: count for name, count in behind.items() if isinstance(count, int)}
    is_fit, lost = body.get("isFit"), body.get("lostBytes")
    return View(
        role, epoch, fault, known if role == LEADER else {},
        is_fit if isinstance(is_fit, bool) else None, lost if isinstance(lost, int) else 0,
    )  # fmt: skip


def add_roles(brokers: Sequence[dict[str, Any]], views: Mapping[str, View | None]) -> None:
    """Add to each broker with replicas who leads it, and what each replica is. `views` has what the processes say, by name.

    The broker's own address, pid and store become those of its leader. Of two that say that they lead, the later epoch does.
    """
    for broker in brokers:
        replicas: list[dict[str, Any]] = broker.get("replicas", [])
        if not replicas:
            continue
        said = {one["name"]: views.get(one["process"]) for one in replicas}
        leaders = [(view.epoch, name) for name, view in said.items() if view and view.role == LEADER]
        leader = max(leaders)[1] if leaders else None
        leading = said[leader] if leader else None
        faults = [view.register_fault for view in (leading, *said.values()) if view and view.register_fault]
        broker.update({"leader": leader, "registerFault": faults[0] if faults else ""})
        for one in replicas:
            one.update(_shown(one["name"], said[one["name"]], leading, is_leader=one["name"] == leader))
            if one["name"] == leader:
                broker.update({key: one[key] for key in ("address", "http", "pid", "store")})


def _shown(name: str, view: View | None, leading: View | None, *, is_leader: bool) -> dict[str, Any]:
    behind = 0 if is_leader else leading.behind_bytes.get(name) if leading else None
    return {
        "role": view.role if view else UNKNOWN,
        "epoch": view.epoch if view else None,
        "behindBytes": behind,
        "isFit": view.is_fit if view else None,
        "lostBytes": view.lost_bytes if view else None,
    }
