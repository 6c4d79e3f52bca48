"""What all workers share: defaults that work together, and a port of each worker's own."""

import pytest

from gantry_chassis.machine.addresses import reachable_address
from gantry_chassis.settings.loading import SettingsRefused, load_settings
from gantry_chassis.settings.worker import Port, WorkerSettings


class SomeWorker(WorkerSettings, frozen=True, kw_only=True):
    """A worker for the tests."""

    port: Port = 4000
    own: int = 1


def load(*words):
    return load_settings(
        SomeWorker, "SOME", [part for word in words for part in ("--set", word)], environ={"SOME_OWN": "3"}
    )


def test_the_http_port_follows_the_remoting_port():
    assert (load().port, load().http_port_or_next) == (4000, 4002)
    assert load("port=0").http_port_or_next == 0
    assert load("http_port=7").http_port_or_next == 7


def test_the_reachable_host_is_advertised():
    assert load().advertised_host(reachable_address) == "127.0.0.1"
    assert load("advertise=worker-1").advertised_host(reachable_address) == "worker-1"
    assert load("listen=0.0.0.0").advertised_host(reachable_address) not in ("", "0.0.0.0")


def test_a_worker_adds_its_own_settings():
    assert load("claim_ttl_ms=500").own == 3


@pytest.mark.parametrize("word", ["port=70000", "claim_ttl_ms=499", "poll_seconds=0", "nameservers="])
def test_values_out_of_bounds_are_refused(word):
    with pytest.raises(SettingsRefused):
        load(word)
