"""Opens access control where it is on. A process without it loads none of its code: neither cryptography nor the tables of rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantry_chassis.machine.environment import Environment
from gantry_chassis.metrics import Metrics
from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.start_refusal import StartRefused

if TYPE_CHECKING:
    from gantry_guard.guard import Guard


def open_guard(
    settings: AccessSettings, service: str, metrics: Metrics, environment: Environment
) -> Guard | None:
    """Return the access control of a process; None if it is off. Raises StartRefused.

    `service`: its name, for other services and the audit log. The process supervises `audit.run`, and calls `audit.close` at its end.
    """
    if not settings.is_guarded:
        if settings.access_validators:  # nobody would call them: the ports would let everybody in
            raise StartRefused(
                "access_validators needs access control, which is off: set access_key_file, or remove it"
            )
        return None
    from gantry_guard.guard import Guard

    return Guard.of(settings, service, metrics, environment)
