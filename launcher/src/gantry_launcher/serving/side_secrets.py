"""The secrets of NATS, Valkey and a Spark cluster, in files that only their user may read, and the configuration files that name them.

Every local user and every container on this machine can reach their ports. No secret is an argument or in an environment, where `ps`,
`docker inspect` or another process would show it. The launcher makes new ones at each start. With docker-compose, a container runs
this module; it keeps the secrets that are there, because servers and services that run already know them.
"""

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gantry_launcher.access.private_files import write_private
from gantry_launcher.errors import EXIT_REFUSED, Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.planning.nats_nodes import NatsNode, cluster_config

SECRET_BYTES = 32
CLIENT_PORT, ROUTE_PORT = 4222, 6222
EVERYWHERE = "0.0.0.0"  # noqa: S104 - within a container
STOPS = (signal.SIGTERM, signal.SIGINT)


def make_side_secrets(
    data: DataDir, nats: Sequence[NatsNode], *, keep: bool = False, nats_health: str = ""
) -> None:
    """Write secrets, and the configuration of the servers that names them: of one NATS server, or of each of a cluster. Raises Refused.

    `keep` leaves a secret that is there. `nats_health` is where NATS answers health checks over HTTP: host:port, or empty for nowhere.
    """
    token, redis = _secret(data.nats_token, keep=keep), _secret(data.redis_password, keep=keep)
    health = f'http: "{nats_health}"\n' if nats_health else ""
    clients = f'authorization {{ token: "{token}" }}\n{health}'
    write_private(data.nats_config, clients)
    if len(nats) > 1:
        password = _secret(data.nats_route_password, keep=keep)
        for node in nats:
            own = cluster_config(node, nats, str(data.of(node.name)), password)
            write_private(data.nats_node_config(node.name), clients + own)
    write_private(data.redis_config, f"requirepass {redis}\n")


def make_spark_secret(data: DataDir) -> None:
    """Write the secret of a Spark cluster where there is none, and the configuration that names it. Raises Refused."""
    secret = _secret(data.spark_secret, keep=True)
    write_private(
        data.spark_config,
        f"spark.authenticate true\nspark.authenticate.secret {secret}\nspark.ui.killEnabled false\n",
    )


def main(arguments: Sequence[str]) -> int:
    """Make the secrets that are missing in a data directory, and return the exit status."""
    parser = argparse.ArgumentParser(prog="side_secrets", description=main.__doc__)
    parser.add_argument("data", type=Path, help="data directory: the files go into its folder secrets/")
    parser.add_argument(
        "--nats-health", default="", metavar="HOST:PORT", help="where NATS answers health checks"
    )
    parser.add_argument(
        "--nats-cluster",
        default="",
        metavar="NAME,NAME,NAME",
        help="the hosts of the NATS servers that keep the registers of brokers with replicas; each has its streams in DATA/NAME",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="end only at SIGTERM: a container that ends makes some commands of compose stop all",
    )
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS if options.stay else ())
    try:
        make_spark_secret(DataDir(options.data))
        nodes = _hosts(options.nats_cluster)
        make_side_secrets(DataDir(options.data), nodes, keep=True, nats_health=options.nats_health)
    except Refused as refused:
        sys.stderr.write(f"side_secrets: {refused}\n")
        return EXIT_REFUSED
    if options.stay:
        signal.sigwait(STOPS)
    return 0


def _hosts(names: str) -> list[NatsNode]:
    """Return the servers of a cluster with a host each, which other containers reach by its name."""
    hosts = filter(None, (name.strip() for name in names.split(",")))
    return [NatsNode(host, host, CLIENT_PORT, ROUTE_PORT, EVERYWHERE) for host in hosts]


def _secret(path: Path, *, keep: bool) -> str:
    """Return the secret of a file; where it holds none, or none is to be kept, write a new one. Raises Refused."""
    try:
        kept = path.read_text(encoding="utf-8").strip() if keep and path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if kept:
        return kept
    secret = secrets.token_urlsafe(SECRET_BYTES)
    write_private(path, secret)
    return secret


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
