"""Checks before anything starts whether the services accept their settings. Only the services know the bounds."""

import subprocess

from gantry_launcher.errors import Refused
from gantry_launcher.layout import PYTHON
from gantry_launcher.options import Set
from gantry_launcher.planning.nats_nodes import NODES
from gantry_launcher.planning.replicas import NAMES

SECONDS_MAX = 30
STRUCTS = {
    "nameserver": "nameserver.settings:NameserverSettings",
    "broker-store": "broker_store.settings:Settings",
    "scheduler": "scheduler.settings:SchedulerSettings",
    "txn-checker": "txn_checker.settings:CheckerSettings",
    "gateway": "gateway.settings:GatewaySettings",
}


KEY_FILE = "access_key_file=that-of-the-launcher"
"""Some settings need access control, whose key file the launcher itself sets. The check opens no file."""
NATS = "nats://127.0.0.1:4222"


def refuse_wrong_sets(sets: tuple[Set, ...], *, has_access: bool, replicas: int) -> None:
    """Raise Refused with the service's own message for an unknown name, a value out of bounds, or settings that contradict each other.

    `has_access`: whether the launcher starts the services with access control. `replicas`: how many stores it starts for each broker.
    """
    for service in dict.fromkeys(one.service for one in sets):
        kind = "broker-store" if service.startswith("broker-") else service
        if kind in STRUCTS:
            of_group = service.rpartition("-")[0] if kind == "broker-store" else ""
            own = [f"{one.key}={one.value}" for one in sets if one.service in {kind, of_group, service}]
            own += [KEY_FILE] if has_access else []
            _ask(kind, own + (_replica(replicas) if kind == "broker-store" and replicas > 1 else []))


def _replica(replicas: int) -> list[str]:
    """Return settings of a replica as the launcher sets them: some others need them."""
    places = ";".join(f"{name}=127.0.0.1:{at}" for at, name in enumerate(NAMES[:replicas], 1))
    return [f"replica={NAMES[0]}", f"replicas={places}", f"register_servers={NODES}", f"nats_url={NATS}"]


def _ask(kind: str, pairs: list[str]) -> None:
    words = [word for pair in pairs for word in ("--set", pair)]
    command = [str(PYTHON), "-P", "-m", "gantry_chassis.settings.check", STRUCTS[kind], kind, *words]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"cannot check the settings of {kind}: {error}") from error
    if asked.returncode != 0:
        said = asked.stderr.strip().splitlines()
        raise Refused(said[-1] if said else f"{kind}: its settings cannot be checked")
