"""`replicas rebuild-register`: makes the lost register of a broker again, with the NATS servers of the data directory and none of its stores.

What is right, the store's own program decides (`broker_store.process.rebuild_register`): it reads what each replica remembers, and writes the register.
"""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from gantry_launcher.access.keys import keys_in_use
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import RebuildOptions, UpOptions
from gantry_launcher.output.service_log import Output
from gantry_launcher.output.terminal import say
from gantry_launcher.planning.plan import child_environment, make_plan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.system_plan import ProcessPlan
from gantry_launcher.processes.orders import Restarts
from gantry_launcher.serving.replica_record import replication_of
from gantry_launcher.serving.serve import listen, supervisor_of
from gantry_launcher.serving.side_secrets import make_side_secrets

PROGRAM = "broker_store.process.rebuild_register"
READY_SECONDS_MAX = 60


def rebuild_register(options: RebuildOptions, lock: int) -> int:
    """Make the register again in a data directory that is claimed. Returns the exit status. Raises Refused."""
    data = DataDir(options.data)
    replication = replication_of(data, None)
    if replication.replicas == 1:
        raise Refused(f"{data.path} has no replicas: there is no register")
    brokers = ord(options.broker.removeprefix("broker-")) - ord("a") + 1
    wanted = UpOptions(
        options.data, free_ports=True, brokers=brokers, sets=options.sets, timeout_seconds=READY_SECONDS_MAX
    )
    ports, output = Ports(("127.0.0.1",)), Output(data.log, echo=False)
    try:
        plan = make_plan(wanted, ports, keys_in_use(data), replication)
        make_side_secrets(data, plan.nats)
        names = {one.process for one in plan.stores if one.broker == options.broker}
        stores = [one for one in plan.processes if one.name in names]
        servers = tuple(one for one in plan.processes if one.role == "nats")
        supervisor = supervisor_of(
            wanted, replace(plan, processes=servers, stores=()), output, lock, listen(options.data)
        )
        statuses: list[int] = []

        with tempfile.NamedTemporaryFile("w", prefix="remembered-", encoding="utf-8") as file:
            file.writelines(_remembered(options, stores))
            file.flush()

            def write(_state: object) -> None:
                statuses.append(_write(options, stores, file.name))
                supervisor.stop()

            supervisor.run(write, say, Restarts())
        return statuses[0] if statuses else 1
    finally:
        ports.close()
        output.close()


def _remembered(options: RebuildOptions, stores: Sequence[ProcessPlan]) -> list[str]:
    """Return what each replica says that it remembers. Raises Refused where one says nothing and is not given up."""
    lines: list[str] = []
    for store in stores:
        replica = store.name.removeprefix(f"{options.broker}-")
        if replica in options.without:
            continue
        answer = subprocess.run(
            _command(store, "remember"), env=child_environment("broker"), capture_output=True, text=True, check=False
        )  # fmt: skip
        if answer.returncode:
            raise Refused(
                f"{answer.stderr.strip()}; for a replica that is lost for good: --without {replica}"
            )
        lines.append(answer.stdout)
    return lines


def _write(options: RebuildOptions, stores: Sequence[ProcessPlan], lines: str) -> int:
    switches = [*(["--yes"] if options.yes else []), *(["--replace"] if options.replace else [])]
    without = [word for name in options.without for word in ("--without", name)]
    command = _command(stores[0], "write", "--from", lines, *without, *switches)
    return subprocess.run(command, env=child_environment("broker"), check=False).returncode


def _command(store: ProcessPlan, *words: str) -> list[str]:
    """Return the program with the settings of a store."""
    python, own_path_only, module, _, *settings = store.command
    return [python, own_path_only, module, PROGRAM, *words, *settings]
