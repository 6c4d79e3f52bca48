"""`python -m txn_checker`: -c FILE, --set name=value, --help."""

import sys

from gantry_chassis.logs.structured import configure, get_logger
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import Life, run
from gantry_chassis.settings.loading import masked, settings_or_exit
from gantry_guard.exposure import refuse_exposure
from txn_checker.assembly import SERVICE, serve
from txn_checker.settings import CheckerSettings


def main() -> None:
    """Run a txn-checker until a signal stops it."""
    fill_standard_streams()
    settings = settings_or_exit(CheckerSettings, SERVICE, sys.argv[1:])
    configure(SERVICE, settings.log_level, json=settings.log_json, file=settings.log_file)
    get_logger().debug("settings", **masked(settings))

    async def live(life: Life) -> None:
        refuse_exposure([settings.listen], is_guarded=settings.is_enforced, is_insecure=settings.insecure)
        await serve(settings, life)

    run(live, service=SERVICE)


if __name__ == "__main__":
    main()
