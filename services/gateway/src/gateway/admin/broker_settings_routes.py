"""The settings of one broker: show, change. The names are RocketMQ's, and what may be changed the broker says."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from gateway.http.problems import refused, unanswered
from gateway.ports.stores import PeerAway, Store, StoreRefused
from gateway.requests.element_limits import SETTINGS_MAX
from gateway.requests.models import Body, Shown
from gateway.requests.parameters import problems
from gateway.routing.fleet import Fleet

KEY_PATTERN = r"^[A-Za-z0-9_.]{1,128}$"
VALUE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
"""Settings travel as lines `key=value`."""

BrokerPath = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9._~-]+$", max_length=255, description="Name of the broker.")
]
Key = Annotated[str, Field(pattern=KEY_PATTERN)]
Value = Annotated[str, Field(pattern=VALUE_PATTERN, max_length=4096)]


class SettingsBody(Body):
    """Settings to change; all of them are, or none."""

    settings: Annotated[
        dict[Key, Value],
        Field(
            min_length=1, max_length=SETTINGS_MAX, json_schema_extra={"additionalProperties": False}
        ),  # pydantic writes the pattern of keys as `patternProperties`, which allows any other key
    ]


class SettingsShown(Shown):
    """All settings of a broker that are in force."""

    broker: str
    settings: dict[str, str]


def broker_settings_routes(fleet: Fleet) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["cluster"])

    @router.get("/v1/brokers/{broker}/settings", responses=problems(400, 404))
    async def show_settings(broker: BrokerPath) -> SettingsShown:
        """Show the settings of a broker by RocketMQ's names."""
        return await _settings(await _store(fleet, broker), {})

    @router.patch("/v1/brokers/{broker}/settings", responses=problems(400, 403, 404, 413, 415))
    async def change_settings(broker: BrokerPath, body: SettingsBody) -> SettingsShown:
        """Change settings of a running broker; durable when answered, safe to repeat."""
        return await _settings(await _store(fleet, broker), dict(body.settings))

    return router


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
