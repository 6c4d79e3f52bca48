"""Access control of the process, where it is on: the keys of JWT, and the users that it follows over the stores that the gateway knows."""

from contextlib import suppress
from typing import TYPE_CHECKING

from gantry_chassis.metrics import Metrics
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import StartRefused
from gantry_link.connections.pool import ConnectionPool
from gateway.http.problems import Problem
from gateway.process.assembly import AccessParts, Gateway
from gateway.settings import GatewaySettings
from gateway.stores.link_access import LinkAccessChanges

if TYPE_CHECKING:
    from gantry_guard.guard import Guard
    from gantry_guard.http_callers import JwtCheck
    from gantry_guard.http_door import HttpDoor

FIRST_STORES_SECONDS, STORES_SECONDS = 0.2, 5.0
"""Interval of questions to the nameservers about stores: until the users were read from one, and afterwards."""


def access_parts(
    settings: GatewaySettings, life: Life, guard: "Guard | None", pool: ConnectionPool
) -> AccessParts | None:
    """Return access control, None without a guard; follow the keys of JWT, if they are accepted. Raises StartRefused."""
    if guard is None:
        return None
    jwt: JwtCheck | None = None
    if settings.jwt_issuer:
        # PyJWT is loaded only if it is used.
        from gantry_guard.jwt_bearer.key_source import keys_at_url, keys_of_file
        from gantry_guard.jwt_bearer.verifier import JwtRules, JwtVerifier

        try:
            source = settings.jwt_jwks_url
            keys = keys_at_url(source) if source else keys_of_file(settings.jwt_jwks_file)
        except ValueError as error:
            raise StartRefused(f"jwt_jwks_url: {error}") from error
        rules = JwtRules(settings.jwt_issuer, settings.jwt_audience, settings.jwt_user_claim)
        jwt = JwtVerifier(rules, keys)

        async def follow_keys() -> None:
            await keys.run(life.sleep)

        life.supervise("keys of JWT", follow_keys)
    changes = LinkAccessChanges(pool, settings.request_timeout_ms / 1000, guard.introducer.is_introduced)
    return AccessParts(guard, changes, jwt, life.environment.secret_bytes)


def door_of_worker(guard: "Guard", settings: GatewaySettings) -> "HttpDoor":
    """Return the door of the port that one process has for itself, among several that share a port."""
    return guard.own_port_door("gateway worker", settings.access_cluster)


def follow_users(
    life: Life, guard: "Guard | None", gateway: Gateway, pool: ConnectionPool, metrics: Metrics
) -> None:
    """Do nothing without a guard. Follow users, policies and tokens over the stores that the gateway knows; look for stores until one was read, then slowly."""
    if guard is None:
        return
    steady = life.environment.steady

    async def look_for_stores() -> None:
        while True:
            with suppress(Problem):
                await gateway.fleet.brokers()
            seconds = STORES_SECONDS if guard.table.is_complete else FIRST_STORES_SECONDS
            if await life.sleep(seconds):
                return

    def stores() -> list[str]:
        return [one.address for one in gateway.known.all(steady()) if one.address]

    life.supervise("stores of users", look_for_stores)
    life.supervise("users", guard.follower(stores, pool, metrics).run)
    life.supervise("audit log", guard.audit.run)
