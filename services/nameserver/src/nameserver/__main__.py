"""`python -m nameserver`: -c FILE, --set name=value, -p prints the settings and ends."""

from __future__ import annotations

import sys
from pathlib import Path

from gantry_chassis.logs.structured import configure, get_logger
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import Life, run
from gantry_chassis.settings.loading import SettingsRefused, masked, parse_arguments, settings_or_exit
from gantry_chassis.start_refusal import refuse_start
from gantry_guard.exposure import refuse_exposure
from nameserver.assembly import SERVICE, serve
from nameserver.run_config import RunConfig
from nameserver.settings import NameserverSettings, read_conf

HELP, PRINT = ("-h", "--help"), "-p"


def main() -> None:
    """Run a nameserver until a signal stops it."""
    fill_standard_streams()
    argv = sys.argv[1:]
    ignored: list[str] = []

    def read_file(path: Path) -> dict[str, str]:
        return read_conf(path, ignored)

    if set(HELP) & set(argv):
        settings_or_exit(NameserverSettings, SERVICE, argv)
    try:
        arguments = parse_arguments(argv, switches=(PRINT,))
    except SettingsRefused as refused:
        refuse_start(SERVICE, str(refused))
    settings = settings_or_exit(NameserverSettings, SERVICE, arguments, read_file=read_file)
    if PRINT in arguments.switches:
        sys.stdout.write(RunConfig(settings, settings.switches()).text().decode())
        return
    configure(SERVICE, settings.log_level, json=settings.log_json, file=settings.log_file)
    if ignored:
        get_logger().warning("ignored unknown settings of the file", names=", ".join(ignored))
    get_logger().debug("settings", **masked(settings))

    async def live(life: Life) -> None:
        refuse_exposure([settings.listen], is_guarded=settings.is_enforced, is_insecure=settings.insecure)
        await serve(settings, life)

    run(live, service=SERVICE)


if __name__ == "__main__":
    main()
