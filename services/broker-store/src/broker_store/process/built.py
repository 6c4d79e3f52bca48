"""Everything that serves the requests of an opened store, put together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_store.ports import Commands
from broker_store.process.extension_hooks import Hooks
from broker_store.process.foundation import Foundation
from broker_store.process.halves_and_features import Feature, Halves, all_commands
from broker_store.process.parts.configuration import Configuration
from broker_store.requests.command_table import Door
from gantry_link.serving.peer import Peer

if TYPE_CHECKING:
    from broker_store.process.parts.access_control import AccessControl


@dataclass(frozen=True, slots=True)
class Built:
    """Everything that serves the requests of an opened store."""

    foundation: Foundation
    halves: Halves
    features: list[Feature]
    hooks: Hooks
    control: "AccessControl | None"
    """None where access control is off."""
    door: Door | None
    configuration: Configuration

    def commands(self) -> Commands:
        """Return every command of the fully recovered store."""
        sending, consuming = self.halves.sending, self.halves.consuming
        return {**sending.commands(), **consuming.commands(), **all_commands(self.features)}

    async def register(self) -> None:
        """Register with the nameservers, if there are any."""
        if self.foundation.registration is not None:
            await self.foundation.registration.register()

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection."""
        self.halves.sending.settling.closed(peer.id)
        self.halves.consuming.closed(peer)
        for part in self.features:
            part.closed(peer)

    async def close(self) -> None:
        """Leave the nameservers, answer held requests and finish running ones. Sends are drained afterwards."""
        if self.foundation.registration is not None:
            await self.foundation.registration.unregister()
        await self.halves.consuming.stop()
        self.hooks.close()
        for part in self.features:
            await part.close()
