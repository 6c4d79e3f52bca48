"""The settings of a store's broker group: names, addresses, how many replicas an acknowledgement needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from broker_store.replication.replica import RoleSettings
from broker_store.settings import Settings
from gantry_chassis.nats_connection import servers_of
from gantry_chassis.start_refusal import StartRefused

BEATS_PER_LEASE = 4
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class CannotMove(Exception):
    """The named replica cannot lead now; the text says why."""


class Timing(NamedTuple):
    """Milliseconds."""

    lease_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What a replica knows of its group."""

    group: str
    name: str
    others: Mapping[str, str]
    """host:port of the other replicas, by their names."""
    order: tuple[str, ...]
    """All names, sorted."""
    min_in_sync: int
    timing: Timing
    may_bootstrap: bool
    register_servers: int
    is_async: bool
    """Whether a leader answers plain sends once its own disk has them."""

    @property
    def follower_id(self) -> int:
        """The brokerId while it does not lead: 1… in the order of the names. It depends on no leader, so that no two replicas ever want the same."""
        return self.id_of(self.name)

    def id_of(self, name: str) -> int:
        """Return the brokerId of a replica while it follows."""
        return self.order.index(name) + 1


def group_settings(settings: Settings) -> GroupSettings | None:
    """Return the settings of the group, None for a store without replicas. Raises StartRefused."""
    if not settings.replica:
        if settings.replicas:
            raise StartRefused(
                "replicas names the stores of a group, and replica does not say which of them this is"
            )
        return None
    addresses = _addresses(settings.replicas)
    if settings.replica not in addresses:
        raise StartRefused(f"replica={settings.replica} is not among replicas={settings.replicas}")
    if not servers_of(settings.nats_url):
        raise StartRefused("a store with replicas needs nats_url: the register of its group is kept there")
    if settings.grace_ms <= settings.lease_ms:
        raise StartRefused(f"grace_ms={settings.grace_ms} must be more than lease_ms={settings.lease_ms}")
    needed = settings.min_in_sync or (len(addresses) + 1) // 2
    if needed > len(addresses):
        raise StartRefused(f"min_in_sync={needed} is more than the {len(addresses)} replicas")
    others = {name: address for name, address in addresses.items() if name != settings.replica}
    return GroupSettings(
        settings.broker_name, settings.replica, others, tuple(sorted(addresses)), needed,
        Timing(settings.lease_ms, settings.grace_ms), settings.ha_bootstrap, settings.register_servers,
        settings.replication == "async",
    )  # fmt: skip


def _addresses(text: str) -> dict[str, str]:
    """Return "a=host:port;b=host:port" as a table. Raises StartRefused."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, address = part.partition("=")
        host, _, port = address.rpartition(":")
        if not (_NAME.fullmatch(name) and host and port.isdecimal()):
            raise StartRefused(f"replicas: {part!r} is not name=host:port")
        if name in found or address in found.values():
            raise StartRefused(f"replicas: {part!r} repeats a name or an address")
        found[name] = address
    return found


def role_of(group: GroupSettings, boots: int) -> RoleSettings:
    """Return the settings of the role. `boots`: how often this directory was opened."""
    timing = group.timing
    return RoleSettings(
        group.name, group.group, group.min_in_sync, timing.lease_ms, timing.grace_ms, timing.lease_ms // BEATS_PER_LEASE,
        2 * timing.lease_ms, group.may_bootstrap, boots,
    )  # fmt: skip
