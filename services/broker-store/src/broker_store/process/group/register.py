"""Where a store's group keeps its register: a way to open it, which a process gets from outside."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker_store.process.group.settings import GroupSettings
from broker_store.settings import Settings
from gantry_chassis.machine.environment import Environment

if TYPE_CHECKING:
    from broker_store.replication.register.jetstream_register import JetStreamRegister
    from broker_store.replication.register.port import Register
    from gantry_chassis.nats_connection import NatsRequests, Tls


FIRST_LACK_SECONDS = 0.5
"""Until the store that makes the register of a new group believes that there is none."""


class Closing(Protocol):
    """Something that is closed."""

    async def close(self) -> None:
        """Close it."""
        ...


class GroupRegister(NamedTuple):
    """The register of a group, and its connection."""

    register: "Register"
    connection: Closing
    leave_own_machine: Callable[[], Awaitable[str]] | None
    """Lets another server than that of the store's machine lead the register, and returns which one should lead now. Raises RegisterAway,
    RegisterUnusable. None: no server leads it."""


class RegisterOpening(NamedTuple):
    """What a store knows when it opens the register of its group."""

    settings: Settings
    group: GroupSettings
    remembered: int
    """The newest version that the store's directory knows, 0 for none."""
    environment: Environment
    tls: "Tls | None"


OpenRegister = Callable[[RegisterOpening], GroupRegister]


def jetstream_register(opening: RegisterOpening) -> GroupRegister:
    """Return the register in the JetStream of the NATS servers that the settings name."""
    from broker_store.replication.register.jetstream_calls import WAITS
    from broker_store.replication.register.jetstream_register import JetStreamRegister
    from gantry_chassis.nats_connection import NatsRequests, servers_of

    settings, group = opening.settings, opening.group
    who = f"replica {group.name} of {group.group}"
    servers = servers_of(settings.nats_url)
    requests = NatsRequests(servers, who, opening.environment.rng, settings.nats_token_file, opening.tls)
    # The first store of a new group need not wait long: what it then makes is refused if it is there after all.
    is_first = group.may_bootstrap and opening.remembered == 0
    waits = WAITS._replace(lack_seconds=FIRST_LACK_SECONDS) if is_first else WAITS
    register = JetStreamRegister(requests, group.group, group.register_servers, opening.remembered, waits)
    return GroupRegister(register, requests, partial(_leave_first_server, register, requests))


async def _leave_first_server(register: "JetStreamRegister", requests: "NatsRequests") -> str:
    """Move the stream's lead off the first server of `nats_url`, which is that of the store's machine, once its name is known."""
    name = requests.first_server_name
    return await register.move_leader(name) if name else ""
