"""A broker with replicas: its stores, a cluster of NATS, their ports and settings. One store a broker stays what it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.errors import Refused
from gantry_launcher.options import REPLICAS, parse_up
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.ports import STORE_BLOCK
from gantry_launcher.planning.replicas import STORES_MAX, NoSuchReplica, Replication, seats
from gantry_launcher.planning.system_plan import SystemPlan

from .test_plan import AnyPorts, by_name, plan, settings


def ports_of(system: SystemPlan) -> list[int]:
    """Every port of a system with one gateway."""
    used = [int(system.http.rpartition(":")[2]), int(system.redis.partition("/0")[0].rpartition(":")[2])]
    nameserver = int(system.nameserver.rpartition(":")[2])
    used += [nameserver, nameserver + 1]
    used += [port for node in system.nats for port in (node.port, node.route_port) if port]
    for name in ("scheduler", "txn-checker"):
        port = int(settings(by_name(system)[name])["port"])
        used += [port, port + 2]
    for store in system.stores:
        port = int(store.address.rpartition(":")[2])
        used += [port + step for step in STORE_BLOCK]
    return used


def test_one_replica_is_a_system_without_replication() -> None:
    assert plan("--replicas 1") == plan("")
    assert [node.name for node in plan("").nats] == ["nats"]
    store = by_name(plan(""))["broker-a"]
    assert not {"replica", "replicas", "register_servers", "ha_bootstrap"} & set(settings(store))
    assert store.until_ready == ()
    assert "replicas" not in plan("").addresses(dict.fromkeys(by_name(plan(""))))["brokers"][0]


def test_each_store_knows_its_name_and_where_all_are() -> None:
    processes = by_name(plan("--replicas 3 --brokers 2"))
    everywhere = "a=127.0.0.1:11011;b=127.0.0.1:11041;c=127.0.0.1:11071"
    for name in "abc":
        found = settings(processes[f"broker-b-{name}"])
        assert (found["replica"], found["replicas"], found["broker_name"]) == (name, everywhere, "broker-b")
        assert found["register_servers"] == "3"
        assert found["store_dir"] == processes[f"broker-b-{name}"].folder == f"/d/broker-b/{name}"


def test_one_store_of_each_broker_may_make_its_register_until_it_was_ready_and_never_later() -> None:
    def makers(system: SystemPlan) -> set[str]:
        assert not [one for one in system.processes if "ha_bootstrap=true" in one.command]
        return {one.name for one in system.processes if one.until_ready == ("--set", "ha_bootstrap=true")}

    assert makers(plan("--replicas 3 --brokers 2")) == {"broker-a-a", "broker-b-a"}
    assert makers(plan("--replicas 3 --brokers 2", None, frozenset({"broker-a"}))) == {"broker-b-a"}
    assert makers(plan("--replicas 5", None, frozenset({"broker-a"}))) == set()


def test_every_service_gets_all_nats_servers_and_each_store_begins_with_another() -> None:
    system = plan("--replicas 3 --gateway-workers 2")
    nodes = {node.url for node in system.nats}
    assert len(nodes) == 3
    own = [one for one in system.processes if one.role not in {"nats", "redis"}]
    assert len(own) == 8
    for one in own:
        assert set(settings(one)["nats_url"].split(",")) == nodes
    firsts = {settings(by_name(system)[f"broker-a-{name}"])["nats_url"].partition(",")[0] for name in "abc"}
    assert firsts == nodes


def test_a_server_of_the_cluster_has_a_configuration_and_a_folder_of_its_own() -> None:
    servers = [one for one in plan("--replicas 2").processes if one.role == "nats"]
    assert [one.name for one in servers] == ["nats-1", "nats-2", "nats-3"]
    assert [one.command[2] for one in servers] == [
        f"/d/secrets/nats-cluster/{one.name}.conf" for one in servers
    ]
    assert len({one.folder for one in servers}) == len({one.log for one in servers}) == 3


@pytest.mark.parametrize("replicas", REPLICAS)
@pytest.mark.parametrize("words", ["", "--port-base 20000"], ids=["well-known", "from a base"])
def test_no_two_ports_are_one(words: str, replicas: int) -> None:
    for brokers in range(1, STORES_MAX // replicas + 1):
        used = ports_of(plan(f"{words} --replicas {replicas} --brokers {brokers}"))
        assert len(set(used)) == len(used)
        assert all(20000 <= port < 20300 for port in used) or not words


def test_more_stores_than_fit_are_refused() -> None:
    with pytest.raises(Refused, match="--brokers 9 with 3 replicas each: at most 26 stores"):
        plan("--replicas 3 --brokers 9")


@pytest.mark.parametrize("number", ["0", "4", "6", "three"])
def test_other_numbers_are_refused(number: str) -> None:
    with pytest.raises(Refused, match="--replicas"):
        parse_up(["--replicas", number])


def test_settings_are_of_all_stores_of_one_broker_or_of_one_replica() -> None:
    words = "--set broker-a.flush=async --set broker-a-b.flush=sync --set broker-store.flush=async --set broker-b.min_in_sync=1"
    processes = by_name(plan(f"--replicas 3 --brokers 2 {words}"))
    assert [settings(processes[f"broker-a-{name}"])["flush"] for name in "abc"] == ["async", "sync", "async"]
    assert settings(processes["broker-b-c"])["min_in_sync"] == "1"
    assert "min_in_sync" not in settings(processes["broker-a-c"])


def test_a_name_of_the_broker_is_that_of_all_its_replicas() -> None:
    system = plan("--replicas 3 --set broker-a.broker_name=orders")
    assert {settings(by_name(system)[f"broker-a-{name}"])["broker_name"] for name in "abc"} == {"orders"}
    (broker,) = system.addresses(dict.fromkeys(by_name(system)))["brokers"]
    assert broker["name"] == "orders"
    assert {store.broker for store in system.stores} == {"broker-a"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--set broker-a.port=9000", "say which of broker-a-a, broker-a-b, broker-a-c is meant"),
        ("--set broker-store.store_dir=/x", "say which of broker-a-a, broker-a-b, broker-a-c is meant"),
        ("--set broker-a-b.broker_name=x", "say which of broker-a is meant"),
        ("--brokers 2 --set broker-store.broker_name=x", "say which of broker-a, broker-b is meant"),
        ("--set broker-a-d.flush=sync", "no service of that name"),
        ("--set nats.port=4222", "no service of that name; there are nats-1, nats-2, nats-3"),
        ("--set nats-1.cluster=x", r"only nats-1\.port"),
        *((f"--set broker-a.{one}=1", "the launcher itself sets it") for one in ("replica", "replicas", "register_servers", "ha_bootstrap")),
    ],
)  # fmt: skip
def test_contradictions_are_refused(words: str, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        plan(f"--replicas 3 {words}")


def test_the_other_replicas_know_ports_that_are_set() -> None:
    system = plan("--replicas 2 --set broker-a-b.port=9100 --set nats-2.port=4222")
    assert settings(by_name(system)["broker-a-a"])["replicas"] == "a=127.0.0.1:10911;b=127.0.0.1:9100"
    assert system.nats[1].port == 4222


def test_replicas_of_one_broker_are_listed_in_one_entry() -> None:
    system = plan("--replicas 3 --brokers 2")
    pids: dict[str, Any] = {name: number for number, name in enumerate(by_name(system))}
    first, second = system.addresses(pids)["brokers"]
    assert [one["name"] for one in first["replicas"]] == ["a", "b", "c"]
    assert second["replicas"][1] == {
        "name": "b", "process": "broker-b-b", "address": "127.0.0.1:11041", "http": "http://127.0.0.1:11043",
        "pid": pids["broker-b-b"], "store": "/d/broker-b/b",
    }  # fmt: skip
    assert first["address"] == first["replicas"][0]["address"]
    assert json.loads(json.dumps(first)) == first


def test_every_replica_has_access_control_and_an_audit_log_of_its_own() -> None:
    system = plan("--replicas 3", KeyFolder(Path("/k")))
    stores = [settings(one) for one in system.processes if one.role == "broker"]
    assert {one["access_key_file"] for one in stores} == {"/k/access.key"}
    assert len({one["access_audit_file"] for one in stores}) == 3
    assert len({one["access_initial_user_file"] for one in stores}) == 1


def test_seats_of_brokers_keep_their_order() -> None:
    assert [one.process for one in seats(2, Replication(2))] == [
        "broker-a-a",
        "broker-a-b",
        "broker-b-a",
        "broker-b-b",
    ]
    assert [one.process for one in seats(2, Replication(1))] == ["broker-a", "broker-b"]


def test_a_new_replica_has_a_name_that_none_ever_had() -> None:
    replication, name = Replication(2).with_added("broker-a")
    assert (name, replication.names_of("broker-a")) == ("c", ("a", "b", "c"))
    replication, name = replication.without("broker-a", "c").with_added("broker-a")
    assert (name, replication.names_of("broker-a")) == ("d", ("a", "b", "d"))
    assert replication.used_by("broker-a") == ("a", "b", "c", "d")
    assert replication.names_of("broker-b") == ("a", "b")


def test_a_broker_keeps_two_replicas_and_has_five_at_most() -> None:
    with pytest.raises(
        NoSuchReplica, match="broker-a has 2 replicas, and needs so many: add one first, then remove b"
    ):
        Replication(2).without("broker-a", "b")
    with pytest.raises(NoSuchReplica, match="has no replica z; there are a, b, c"):
        Replication(3).without("broker-a", "z")
    with pytest.raises(NoSuchReplica, match="broker-a has 5 replicas, and more are of no use"):
        Replication(5).with_added("broker-a")


@pytest.mark.parametrize("words", ["", "--port-base 20000", "--free-ports"])
def test_a_plan_of_a_running_system_keeps_its_ports_and_adds_those_of_a_new_store(words: str) -> None:
    options, ports = (
        parse_up(["--data", "/d", "--brokers", "2", "--replicas", "2", *words.split()]),
        AnyPorts(),
    )
    before = make_plan(options, ports, None, Replication(2))  # type: ignore[arg-type]
    replication, name = Replication(2).with_added("broker-a")
    after = make_plan(options, ports, None, replication, before.ports)  # type: ignore[arg-type]
    old = {store.process: store.address for store in before.stores}
    new = {store.process: store.address for store in after.stores}
    added = new.pop(f"broker-a-{name}")
    assert new == old
    assert added not in old.values()
    assert settings(by_name(after)["broker-a-a"])["replicas"].endswith(f";{name}={added}")
