"""`python -m scheduler`: -c FILE, --set name=value."""

from __future__ import annotations

import sys

from gantry_chassis.logs.structured import configure, get_logger
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import Life, run
from gantry_chassis.settings.loading import masked, settings_or_exit
from gantry_guard.exposure import refuse_exposure
from scheduler.assembly import SERVICE, serve
from scheduler.settings import SchedulerSettings


def main() -> None:
    """Run a scheduler until a signal stops it."""
    fill_standard_streams()
    settings = settings_or_exit(SchedulerSettings, SERVICE, sys.argv[1:])
    configure(SERVICE, settings.log_level, json=settings.log_json, file=settings.log_file)
    get_logger().debug("settings", **masked(settings))

    async def live(life: Life) -> None:
        refuse_exposure([settings.listen], is_guarded=settings.is_enforced, is_insecure=settings.insecure)
        await serve(settings, life)

    run(live, service=SERVICE)


if __name__ == "__main__":
    main()
