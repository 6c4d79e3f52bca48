"""The secrets of the side services are new at each start, for their owner alone, and never where other processes show them."""

from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.plan import child_environment, make_plan
from gantry_launcher.ports import Ports
from gantry_launcher.side_secrets import make_side_secrets


def test_secrets_are_new_each_time_private_and_those_of_the_configuration(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    seen: set[str] = set()
    for _ in range(2):
        make_side_secrets(data)
        token, password = data.nats_token.read_text(), data.redis_password.read_text()
        assert f'token: "{token}"' in data.nats_config.read_text()
        assert data.redis_config.read_text() == f"requirepass {password}\n"
        seen |= {token, password}
        for path in (tmp_path / "secrets").iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
            path.chmod(0o644)  # as an older version, or a user, left it
    assert len(seen) == 4
    assert all(len(secret) >= 40 for secret in seen)


def test_secrets_that_cannot_be_written_refuse_the_start(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("")
    with pytest.raises(Refused, match=r"cannot write .*nats_token"):
        make_side_secrets(DataDir(tmp_path))


def test_no_secret_stands_in_a_command_line(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    make_side_secrets(data)
    ports = Ports(("127.0.0.1",))
    plan = make_plan(UpOptions(tmp_path, free_ports=True), ports)
    ports.close()
    secrets = {data.nats_token.read_text(), data.redis_password.read_text()}
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
