"""The settings of one broker: show, change. Uses RocketMQ's names; the broker decides which may be changed."""

from typing import Annotated

from msgspec import Meta

from gateway.admin.schemas import SettingsBody, SettingsShown
from gateway.http.problems import refused, unanswered
from gateway.ports.stores import PeerAway, Store, StoreRefused
from gateway.requests.fields import BROKER_CHARS_MAX, ID_PATTERN
from gateway.requests.operations import Operation, Operations
from gateway.routing.fleet import Fleet

BrokerName = Annotated[
    str, Meta(pattern=ID_PATTERN, max_length=BROKER_CHARS_MAX, description="Name of the broker.")
]


def broker_settings_routes(fleet: Fleet) -> list[Operation]:
    """Return the routes."""
    calls = Operations("cluster")

    @calls.get("/v1/brokers/{broker}/settings", 400, 404)
    async def show_settings(broker: BrokerName) -> SettingsShown:
        """Show the settings of a broker by RocketMQ's names."""
        return await _settings(await _store(fleet, broker), {})

    @calls.patch("/v1/brokers/{broker}/settings", 400, 403, 404, 413, 415)
    async def change_settings(broker: BrokerName, body: SettingsBody) -> SettingsShown:
        """Change settings of a running broker; durable when answered, safe to repeat."""
        return await _settings(await _store(fleet, broker), body.settings)

    return calls.all


async def _store(fleet: Fleet, name: str) -> Store:
    return fleet.store(await fleet.broker(name))


async def _settings(store: Store, changes: dict[str, str]) -> SettingsShown:
    try:
        return SettingsShown(broker=store.broker, settings=await store.settings(changes))
    except StoreRefused as error:
        problem = refused(error)
        problem.field = "settings" if changes else ""
        raise problem from error
    except PeerAway as error:
        raise unanswered(error, is_write=False) from error
