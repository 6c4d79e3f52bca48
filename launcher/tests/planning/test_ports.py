"""Allocated ports are free and reserved."""

import socket
from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.planning.ports import STORE_BLOCK, Ports

HOST = "127.0.0.1"


@pytest.fixture
def ports():
    ports = Ports((HOST,))
    yield ports
    ports.close()


def _unreserved(steps: tuple[int, ...]) -> int:
    """A port that is free, as are its neighbours, and reserved by no process."""
    other = Ports((HOST,))
    port = other.free(steps)
    other.close()
    return port


def test_a_free_block_can_be_bound_whole(ports: Ports) -> None:
    port = ports.free(STORE_BLOCK)
    for step in STORE_BLOCK:
        with socket.create_server((HOST, port + step)):
            pass


def test_a_port_once_given_is_not_given_again_here_or_to_another_launcher(ports: Ports) -> None:
    given = {ports.free() for _ in range(50)}
    assert len(given) == 50
    other = Ports((HOST,))
    port = given.pop()
    assert not other._reserve(port)
    ports.close()
    assert other._reserve(port)
    other.close()


def test_free_ports_lie_below_those_of_outgoing_connections(ports: Ports) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    limit = low if low > 17000 else 32768
    assert all(port < limit for port in (ports.free() for _ in range(20)))


def test_a_taken_port_is_refused_with_its_number_and_its_use(ports: Ports) -> None:
    port = _unreserved(STORE_BLOCK)
    with (
        socket.create_server((HOST, port + 2)),
        pytest.raises(Refused, match=rf"port {port + 2} \(broker-a\).* is taken"),
    ):
        ports.fixed(port, "broker-a", STORE_BLOCK)


def test_the_same_port_twice_is_refused(ports: Ports) -> None:
    port = _unreserved((0,))
    ports.fixed(port, "gateway")
    with pytest.raises(Refused, match=r"asked for twice .*nameserver"):
        ports.fixed(port, "nameserver")


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_a_host_that_cannot_be_listened_on_is_named_at_once(host: str) -> None:
    ports = Ports((HOST, host))
    with pytest.raises(Refused, match=f"cannot listen on {host}: "):
        ports.free()
    ports.close()


def test_reservations_leave_no_files_behind(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry_launcher.planning.ports._lock_folder", lambda: tmp_path)
    port = ports.free(STORE_BLOCK)
    assert {int(path.name) - port for path in tmp_path.iterdir()} == set(STORE_BLOCK)
    ports.close()
    assert list(tmp_path.iterdir()) == []


def test_a_port_whose_bind_fails_leaves_no_file_behind(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantry_launcher.planning.ports._lock_folder", lambda: tmp_path)
    with socket.create_server((HOST, 0)) as taken:
        assert not ports._reserve(taken.getsockname()[1])
    assert list(tmp_path.iterdir()) == []
