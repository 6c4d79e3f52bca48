"""Starts a broker-store: `python -m broker_store [-c broker.conf] [-n nameservers] [-p | -m] [--set name=value]`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from broker_store.config.broker_conf import read_broker_conf, refuse_alone, refuse_open
from broker_store.config.delay_levels import IllegalLevels, parse_levels
from broker_store.settings import IMPORTANT, Settings
from gantry_chassis.logs.structured import configure, get_logger
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import Life, run
from gantry_chassis.settings.loading import (
    SettingsRefused,
    has_fast_paths,
    help_text,
    load_settings,
    masked,
    parse_arguments,
)
from gantry_chassis.start_refusal import StartRefused, refuse_start
from gantry_guard.exposure import refuse_exposure

SERVICE = "broker-store"


def main(argv: list[str]) -> None:
    """Read the settings, then print them or run."""
    fill_standard_streams()
    if {"-h", "--help"} & set(argv):
        sys.stdout.write(help_text(Settings, SERVICE))
        return
    ignored, guarded_by, replication = list[str](), list[str](), list[str]()

    def read_file(path: Path) -> Mapping[str, Any]:
        conf = read_broker_conf(path)
        ignored.extend(conf.ignored)
        guarded_by.extend(conf.guarded_by)
        if not conf.replication:
            return conf.values
        replication.append(conf.replication)
        return {**conf.values, "replication": conf.replication}

    try:
        arguments = parse_arguments(argv, options={"-n": "nameservers"}, switches=("-p", "-m"))
        settings = load_settings(Settings, "BROKER_STORE", arguments, read_file=read_file)
        parse_levels(settings.delay_levels)
        refuse_open(guarded_by, settings)
        refuse_alone("".join(replication), settings)
    except SettingsRefused as refused:
        refuse_start(SERVICE, str(refused))
    except IllegalLevels as refused:
        refuse_start(SERVICE, f"delay_levels (messageDelayLevel): {refused}")
    if arguments.switches:
        print_settings(settings, important_only="-p" not in arguments.switches)
        return
    configure(SERVICE, settings.log_level, json=settings.log_json, file=settings.log_file)
    for key in ignored:
        get_logger().warning("unknown key of the settings file ignored", key=key)

    fast_paths = has_fast_paths(SERVICE)

    async def live(life: Life) -> None:
        from broker_store.log.errors import LogError
        from broker_store.process.assembly import StoreProcess
        from broker_store.process.disk import real_disk
        from broker_store.process.group.register import jetstream_register

        get_logger().info("starting", store=settings.store_dir, flush=settings.flush)
        get_logger().debug("settings", **masked(settings))
        refuse_exposure([settings.listen], is_guarded=settings.is_enforced, is_insecure=settings.insecure)
        try:
            await StoreProcess(settings, life, real_disk(), jetstream_register, fast_paths=fast_paths).run()
        except (LogError, OSError) as error:  # the group of a replica continues without it
            raise StartRefused(f"the store ends: {error}: check the disk") from error

    run(live, service=SERVICE)


def print_settings(settings: Settings, *, important_only: bool) -> None:
    """Print `name=value` lines, as RocketMQ's BrokerStartup does for -p and -m."""
    values = msgspec.structs.asdict(settings)
    for name in IMPORTANT if important_only else values:
        sys.stdout.write(f"{name}={values[name]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
