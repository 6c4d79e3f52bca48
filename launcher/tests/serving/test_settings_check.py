"""The services check their settings themselves before anything starts."""

from pathlib import Path

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.main import main
from gantry_launcher.options import Set
from gantry_launcher.serving.settings_check import refuse_wrong_sets


def test_settings_of_every_service_that_exist_are_taken() -> None:
    refuse_wrong_sets((
        Set("nameserver", "idle_seconds", "60"),
        Set("broker-store", "flush", "async"),
        Set("broker-b", "flush", "sync"),
        Set("gateway", "request_timeout_ms", "100"),
        Set("nats", "port", "4222"),
    ), has_access=False, replicas=1)  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Set("gateway", "nope", "1"), "gateway: --set: unknown setting 'nope'"),
        (Set("gateway", "request_timeout_ms", "abc"), "gateway: request_timeout_ms "),
        (Set("broker-a", "nope", "1"), "broker-store: --set: unknown setting 'nope'"),
        (Set("nameserver", "idle_seconds", "-1"), "nameserver: idle_seconds "),
    ],
)
def test_any_other_is_refused_in_the_services_own_words(wrong: Set, words: str) -> None:
    with pytest.raises(Refused, match=words):
        refuse_wrong_sets((wrong,), has_access=False, replicas=1)


def test_what_needs_access_control_is_taken_where_the_launcher_switches_it_on() -> None:
    jwt = ("jwt_issuer", "https://login"), ("jwt_audience", "gantry"), ("jwt_jwks_file", "/keys.json")
    shared = ("tls_client_ca_file", "/ca.pem"), ("tls_client_auth", "optional")
    sets = (
        *(Set("gateway", *one) for one in jwt),
        *(Set("broker-store", *one) for one in shared),
        Set("broker-a", "tls_users", "true"),
    )
    refuse_wrong_sets(sets, has_access=True, replicas=1)
    with pytest.raises(Refused, match="needs access_key_file"):
        refuse_wrong_sets(sets, has_access=False, replicas=1)


def test_settings_of_replicas_are_taken_and_checked_as_of_all_and_of_one() -> None:
    sets = (
        Set("broker-store", "min_in_sync", "1"),
        Set("broker-a", "lease_ms", "2000"),
        Set("broker-a-b", "grace_ms", "3000"),
    )
    refuse_wrong_sets(sets, has_access=False, replicas=3)
    for wrong in (Set("broker-a-b", "grace_ms", "x"), Set("broker-a", "nope", "1")):
        with pytest.raises(Refused, match=f"broker-store: .*{wrong.key}"):
            refuse_wrong_sets((*sets, wrong), has_access=False, replicas=3)


def test_a_wrong_name_is_one_line_and_makes_no_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert main(["up", "--free-ports", "--data", str(data), "--set", "gateway.nope=1"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert not data.exists()
