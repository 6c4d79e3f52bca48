"""The gateway's process: settings, logs, and the composition under supervision."""

import sys

from gantry_chassis.logs.structured import configure
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import Life, run
from gantry_chassis.settings.loading import has_fast_paths, settings_or_exit
from gantry_guard.exposure import refuse_exposure
from gateway.composition import serve
from gateway.settings import GatewaySettings


def main() -> None:
    """Run a gateway until it receives a stop signal."""
    fill_standard_streams()
    settings = settings_or_exit(GatewaySettings, "gateway", sys.argv[1:])
    configure("gateway", settings.log_level, json=settings.log_json, file=settings.log_file)
    fast_paths = has_fast_paths("gateway")

    async def live(life: Life) -> None:
        refuse_exposure([settings.listen], is_guarded=settings.is_enforced, is_insecure=settings.insecure)
        await serve(settings, life, fast_paths=fast_paths)

    run(live, service="gateway")


if __name__ == "__main__":
    main()
