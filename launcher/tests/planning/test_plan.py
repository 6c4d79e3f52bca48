"""The plan lists the processes and their settings; settings of the user win."""

from pathlib import Path

import pytest

from gantry_launcher.access.exposure import AccessControl
from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.errors import Refused
from gantry_launcher.options import parse_up
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.planning.system_plan import ProcessPlan, SystemPlan


class AnyPorts:
    """Ports that are not checked: well-known ones unchanged, free ones counted from 40000."""

    def __init__(self) -> None:
        self._next = 40000

    def free(self, steps: tuple[int, ...] = (0,)) -> int:
        self._next += 10
        return self._next

    def fixed(self, port: int, words: str, steps: tuple[int, ...] = (0,)) -> int:
        return port


def plan(
    words: str, keys: KeyFolder | None = None, with_register: frozenset[str] = frozenset()
) -> SystemPlan:
    options = parse_up(["--data", "/d", *words.split()])
    return make_plan(options, AnyPorts(), keys, Replication(options.replicas or 1, with_register))  # type: ignore[arg-type]


def settings(process: ProcessPlan) -> dict[str, str]:
    pairs = process.command[process.command.index("--set") :]
    return dict(pair.split("=", 1) for pair in pairs[1::2])


def by_name(system: SystemPlan) -> dict[str, ProcessPlan]:
    return {process.name: process for process in system.processes}


def test_well_known_ports_by_default() -> None:
    system = plan("--brokers 2")
    assert (system.http, system.nameserver) == ("http://127.0.0.1:8080", "127.0.0.1:9876")
    assert [(store.name, store.address) for store in system.stores] == [
        ("broker-a", "127.0.0.1:10911"),
        ("broker-b", "127.0.0.1:11011"),
    ]


def test_ports_that_speak_tls_alone_have_https_addresses() -> None:
    system = plan("--brokers 2 --set gateway.tls_mode=enforcing --set broker-b.tls_mode=enforcing")
    assert system.http == "https://127.0.0.1:8080"
    assert [store.http.partition(":")[0] for store in system.stores] == ["http", "https"]


def test_a_port_base_moves_everything_and_nothing_overlaps() -> None:
    system = plan("--port-base 20000 --brokers 26")
    used = [20000, 20001, 20002, 20003, 20004, 20005, 20006, 20007, 20008, 20009]
    for store in system.stores:
        port = int(store.address.rsplit(":", 1)[1])
        used += [port - 2, port, port + 1, port + 2]
    assert len(set(used)) == len(used)
    assert all(20000 <= port < 20300 for port in used)
    assert system.http.endswith(":20000")
    assert system.grpc == "127.0.0.1:20009"


def test_the_callers_stop_before_the_called() -> None:
    stages = {process.role: process.stage for process in plan("").processes}
    assert stages["scheduler"] == stages["txn-checker"] == stages["gateway"]
    assert stages["gateway"] < stages["broker"] < stages["nameserver"] < stages["nats"]


def test_stopping_takes_less_than_down_waits() -> None:
    limits: dict[int, float] = {}
    for process in plan("--brokers 3").processes:
        limits[process.stage] = max(limits.get(process.stage, 0), process.stop_seconds)
    assert sum(limits.values()) <= 45


def test_what_was_set_for_all_stores_and_for_one_wins_in_that_order() -> None:
    words = "--brokers 2 --set broker-store.segment_bytes=1 --set broker-b.segment_bytes=2 --set broker-b.flush=async"
    processes = by_name(plan(words))
    assert settings(processes["broker-a"])["segment_bytes"] == "1"
    assert settings(processes["broker-b"])["segment_bytes"] == "2"
    assert (settings(processes["broker-a"])["flush"], settings(processes["broker-b"])["flush"]) == (
        "sync",
        "async",
    )


def test_a_set_port_is_reported_to_every_caller() -> None:
    system = plan("--set gateway.port=9000 --set broker-a.port=9100 --set broker-a.store_dir=/other")
    assert system.http == "http://127.0.0.1:9000"
    assert (system.stores[0].address, system.stores[0].http) == ("127.0.0.1:9100", "http://127.0.0.1:9102")
    assert system.stores[0].directory == "/other"


def test_gateways_that_share_a_port_know_it() -> None:
    processes = by_name(plan("--gateway-workers 2"))
    assert [settings(processes[name])["worker"] for name in ("gateway-1", "gateway-2")] == ["0", "1"]
    assert settings(processes["gateway-1"])["reuse_port"] == "true"
    assert "reuse_port" not in settings(by_name(plan(""))["gateway"])


def test_gateways_share_their_grpc_port() -> None:
    system = plan("--gateway-workers 2 --grpc-advertise mq.example:443")
    assert system.grpc == "127.0.0.1:8081"
    for name in ("gateway-1", "gateway-2"):
        found = settings(by_name(system)[name])
        assert (found["grpc_port"], found["grpc_advertise"]) == ("8081", "mq.example:443")


def test_the_grpc_port_may_be_set_or_off() -> None:
    assert plan("--set gateway.grpc_port=9001").grpc == "127.0.0.1:9001"
    off = plan("--set gateway.grpc_port=-1")
    assert off.grpc == ""
    assert settings(by_name(off)["gateway"])["grpc_port"] == "-1"


def test_listening_everywhere_tells_clients_an_address_they_can_reach() -> None:
    processes = by_name(plan("--listen 0.0.0.0"))
    assert settings(processes["broker-a"])["listen"] == "0.0.0.0"
    assert settings(processes["broker-a"])["advertise"] != "0.0.0.0"
    assert "127.0.0.1" in processes["nats"].command
    assert (
        plan("--listen 0.0.0.0 --set broker-store.advertise=mq.example").stores[0].address
        == "mq.example:10911"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--set frontend.port=1", "no service of that name"),
        ("--set broker-b.flush=sync", "no service of that name"),
        ("--set gateway.port=http", "not a port"),
        ("--set redis.maxmemory=1", r"only redis\.port"),
        ("--brokers 2 --set broker-store.port=1", "say which of broker-a, broker-b"),
    ],
)
def test_contradictions_are_refused(words: str, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        plan(words)


def test_every_process_keeps_its_files_in_the_data_directory() -> None:
    assert {Path(process.folder).parent for process in plan("--brokers 2").processes} == {Path("/d")}


OWN_SERVICES = ("nameserver", "broker-a", "scheduler", "txn-checker", "gateway")


def test_without_access_control_no_process_gets_a_setting_of_it() -> None:
    system = plan("")
    assert system.access is AccessControl.OFF
    for name in OWN_SERVICES:
        assert not {"access_key_file", "insecure", "access_audit_file"} & set(settings(by_name(system)[name]))


def test_with_keys_every_process_gets_their_file_and_an_audit_log_of_its_own() -> None:
    system = plan("--brokers 2 --gateway-workers 2", KeyFolder(Path("/k")))
    assert system.access is AccessControl.ON
    processes = [process for process in system.processes if process.role not in {"nats", "redis"}]
    assert {settings(one)["access_key_file"] for one in processes} == {"/k/access.key"}
    assert len({settings(one)["access_audit_file"] for one in processes}) == len(processes) == 7
    takers = {one.name for one in processes if settings(one).get("access_initial_user_file")}
    assert takers == {"broker-a", "broker-b"}
    assert not [one for one in processes if "insecure" in settings(one)]


def test_insecure_is_passed_to_every_process_unless_access_control_is_on() -> None:
    system = plan("--listen 0.0.0.0 --insecure")
    assert system.access is AccessControl.INSECURE
    for name in OWN_SERVICES:
        assert settings(by_name(system)[name])["insecure"] == "true"
    assert plan("--listen 0.0.0.0 --insecure", KeyFolder(Path("/k"))).access is AccessControl.ON


def test_a_permissive_process_makes_the_system_permissive_and_keeps_insecure() -> None:
    words = "--listen 0.0.0.0 --insecure --set scheduler.access_mode=permissive"
    system = plan(words, KeyFolder(Path("/k")))
    assert system.access is AccessControl.PERMISSIVE
    assert settings(by_name(system)["scheduler"])["access_mode"] == "permissive"
    for name in OWN_SERVICES:
        assert settings(by_name(system)[name])["insecure"] == "true"


@pytest.mark.parametrize("name", ["access_key_file", "access_initial_user_file"])
def test_the_launcher_alone_names_the_keys(name: str) -> None:
    with pytest.raises(Refused, match=rf"broker-store\.{name}: the launcher itself sets it"):
        plan(f"--set broker-store.{name}=/elsewhere")


@pytest.mark.parametrize("name", ["nameserver", "gateway"])
def test_rights_count_on_the_cluster_of_the_stores(name: str) -> None:
    words = "--set broker-store.cluster_name=east"
    guarded = by_name(plan(words, KeyFolder(Path("/k"))))[name]
    assert settings(guarded)["access_cluster"] == "east"
    assert "access_cluster" not in settings(by_name(plan(words))[name])


def test_health_checks_show_the_certificate_that_a_service_shows_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCHEDULER_TLS_CLIENT_CERT_FILE", "/c/scheduler.pem")
    sets = "--set broker-store.tls_client_cert_file=/c/all.pem --set broker-b.tls_client_cert_file=/c/b.pem --set gateway.tls_client_cert_file=/c/g.pem --set gateway.tls_client_key_file=/c/g.key"
    found = by_name(plan(f"--brokers 2 --gateway-workers 2 {sets}"))
    shown = {name: (one.check.certificate, one.check.key) for name, one in found.items()}
    assert {name: files for name, files in shown.items() if any(files)} == {
        "broker-a": ("/c/all.pem", ""), "broker-b": ("/c/b.pem", ""), "scheduler": ("/c/scheduler.pem", ""),
        "gateway-1": ("/c/g.pem", "/c/g.key"), "gateway-2": ("/c/g.pem", "/c/g.key"),
    }  # fmt: skip
    assert found["gateway-1"].watched.certificate == "/c/g.pem"
