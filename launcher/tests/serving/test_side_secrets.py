"""The secrets of the side services are new at each start, readable only by their owner, and never visible to other processes."""

import itertools
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gantry_launcher.access.keys import KeyFolder, keys_in_use, switch_on
from gantry_launcher.errors import EXIT_REFUSED, Refused
from gantry_launcher.layout import ROOT, DataDir, nats_server
from gantry_launcher.options import UpOptions
from gantry_launcher.planning.plan import child_environment, make_plan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.serving.side_secrets import STOPS, main, make_side_secrets


def written(data: DataDir) -> list[Path]:
    return sorted(path for path in (data.path / "secrets").rglob("*") if not path.is_dir())


def contents(data: DataDir) -> dict[Path, str]:
    return {path: path.read_text() for path in written(data)}


def answer(port: int, request: bytes, until: bytes) -> bytes:
    """The output of a starting server, up to the expected words."""
    for _ in range(600):
        try:
            connection = socket.create_connection(("127.0.0.1", port), 30)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    else:
        raise AssertionError("nothing listens")
    said = b""
    with connection:
        connection.sendall(request)
        while until not in said and (more := connection.recv(4096)):
            said += more
    return said


def test_secrets_are_new_each_time_private_and_those_of_the_configuration(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    seen: set[str] = set()
    for _ in range(2):
        make_side_secrets(data, ())
        token, password = data.nats_token.read_text(), data.redis_password.read_text()
        assert f'token: "{token}"' in data.nats_config.read_text()
        assert data.redis_config.read_text() == f"requirepass {password}\n"
        seen |= {token, password}
        for path in written(data):
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            path.chmod(0o644)  # as left by an older version or a user
    assert len(seen) == 4
    assert all(len(secret) >= 40 for secret in seen)


def test_secrets_that_cannot_be_written_refuse_the_start(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("")
    with pytest.raises(Refused, match=r"cannot write .*secrets/nats/token"):
        make_side_secrets(DataDir(tmp_path), ())


def test_what_reads_the_secret_of_nats_needs_no_folder_that_holds_the_one_of_redis(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    make_side_secrets(data, ())
    assert data.nats_token.parent == data.nats_config.parent
    assert data.redis_password.parent == data.redis_config.parent
    nats = "".join(path.read_text() for path in data.nats_token.parent.iterdir())
    assert data.redis_password.read_text() not in nats


def test_the_program_keeps_the_secrets_that_are_there(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    assert main([str(tmp_path)]) == 0
    before = contents(data)
    assert len(before) == 6
    assert main([str(tmp_path)]) == 0
    assert contents(data) == before


@pytest.mark.parametrize("kept", [*itertools.product((True, False), repeat=6)])
def test_a_run_after_one_that_was_killed_leaves_a_secret_and_a_configuration_that_agree(
    tmp_path: Path, kept: tuple[bool, ...]
) -> None:
    data = DataDir(tmp_path)
    main([str(tmp_path)])
    before = contents(data)
    for path, stays in zip(before, kept, strict=True):
        if not stays:
            path.rename(path.with_name(f"{path.name}.new"))  # written but not yet renamed
    assert main([str(tmp_path)]) == 0
    assert set(contents(data)) == set(before)
    assert f'token: "{data.nats_token.read_text()}"' in data.nats_config.read_text()
    assert data.redis_config.read_text() == f"requirepass {data.redis_password.read_text()}\n"
    assert f"\nspark.authenticate.secret {data.spark_secret.read_text()}\n" in data.spark_config.read_text()
    for path, stays in zip(before, kept, strict=True):
        if stays and path in {data.nats_token, data.redis_password, data.spark_secret}:
            assert path.read_text() == before[path]


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_secret_is_no_secret(tmp_path: Path, content: bytes) -> None:
    data = DataDir(tmp_path)
    main([str(tmp_path)])
    data.nats_token.write_bytes(content)
    data.redis_password.write_bytes(content)
    assert main([str(tmp_path)]) == 0
    assert all(len(secret.read_text()) >= 40 for secret in (data.nats_token, data.redis_password))


def test_the_program_says_what_it_cannot_write_or_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataDir(tmp_path)
    data.redis_password.mkdir(parents=True)
    assert main([str(tmp_path)]) == EXIT_REFUSED
    assert f"cannot read {data.redis_password}" in capsys.readouterr().err
    (tmp_path / "taken").write_text("")
    assert main([str(tmp_path / "taken")]) == EXIT_REFUSED
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("health", [True, False])
def test_nats_requires_the_token_and_answers_health_checks_only_at_a_given_port(
    tmp_path: Path, health: bool
) -> None:
    data = DataDir(tmp_path)
    reserved = Ports(("127.0.0.1",))
    port, health_port = reserved.free(), reserved.free()
    reserved.close()
    main([str(tmp_path), *(["--nats-health", f"127.0.0.1:{health_port}"] if health else [])])
    words = [
        nats_server(),
        "-c",
        data.nats_config,
        "-a",
        "127.0.0.1",
        "-p",
        str(port),
        "-l",
        tmp_path / "log",
    ]
    server = subprocess.Popen(words)
    try:
        guess = b'CONNECT {"auth_token":"guess"}\r\nPING\r\n'
        assert b"Authorization Violation" in answer(port, guess, until=b"Violation")
        knows = b'CONNECT {"auth_token":"%s"}\r\nPING\r\n' % data.nats_token.read_bytes()
        assert b"PONG" in answer(port, knows, until=b"PONG")
        if health:
            assert b" 200 OK" in answer(health_port, b"GET /healthz HTTP/1.0\r\n\r\n", until=b" 200 OK")
        else:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", health_port), 10)
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("stop", STOPS)
def test_the_program_stays_until_it_is_stopped_where_it_should(tmp_path: Path, stop: int) -> None:
    data = DataDir(tmp_path)
    words = [sys.executable, "-P", "-m", "gantry_launcher.serving.side_secrets", str(tmp_path), "--stay"]
    program = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT / "launcher" / "src")})
    try:
        while not data.redis_config.exists():
            assert program.poll() is None
            time.sleep(0.01)
        assert len(written(data)) == 6  # the file written last marks the set as complete
        assert program.poll() is None
        program.send_signal(stop)
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.wait()


def test_no_secret_stands_in_a_command_line(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    make_side_secrets(data, ())
    ports = Ports(("127.0.0.1",))
    first = switch_on(data, KeyFolder(tmp_path.parent / "keys"), "admin")
    keys = keys_in_use(data)
    assert first is not None
    assert keys is not None
    plan = make_plan(UpOptions(tmp_path, free_ports=True), ports, keys, Replication(1))
    ports.close()
    key = keys.key_file.read_text().split()[-1]
    secrets = {data.nats_token.read_text(), data.redis_password.read_text(), first.secret, key}
    for process in plan.processes:
        assert not [word for word in process.command if any(secret in word for secret in secrets)]


@pytest.mark.parametrize(
    ("role", "own"),
    [
        ("nats", set()),
        ("redis", set()),
        ("nameserver", {"NAMESERVER_PORT"}),
        ("broker", {"BROKER_STORE_FLUSH"}),
        ("scheduler", {"SCHEDULER_PORT"}),
        ("txn-checker", {"TXN_CHECKER_PORT"}),
        ("gateway", {"GATEWAY_TOKEN"}),
    ],
)
def test_a_process_gets_its_own_settings_from_the_environment_and_no_others(
    role: str, own: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "GATEWAY_TOKEN",
        "GANTRY_TOKEN",
        "NAMESERVER_PORT",
        "BROKER_STORE_FLUSH",
        "SCHEDULER_PORT",
        "TXN_CHECKER_PORT",
    )
    for name in names:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    environment = child_environment(role)
    assert {name for name in names if name in environment} == own
    assert environment["LANG"] == "C.UTF-8"
