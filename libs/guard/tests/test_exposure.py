import pytest
from structlog.testing import capture_logs

from gantry_chassis.start_refusal import StartRefused
from gantry_guard.exposure import is_loopback, refuse_exposure


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_a_loopback_address_needs_no_access_control(host):
    assert is_loopback(host)
    refuse_exposure([host], is_guarded=False, is_insecure=False)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",
        "::",
        "10.0.0.5",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "::ffff:10.0.0.1",
        "1270.0.0.1",
    ],
)
def test_any_other_address_is_refused_with_both_ways_out(host):
    with pytest.raises(StartRefused) as refused:
        refuse_exposure(["127.0.0.1", host], is_guarded=False, is_insecure=False)
    assert "./gantry access init" in str(refused.value)
    assert "insecure=true" in str(refused.value)
    assert (host or "every address") in str(refused.value)


def test_access_control_opens_every_address():
    refuse_exposure(["0.0.0.0"], is_guarded=True, is_insecure=False)


def test_an_insecure_start_is_logged():
    with capture_logs() as logged:
        refuse_exposure(["0.0.0.0", "127.0.0.1"], is_guarded=False, is_insecure=True)
    assert [(line["log_level"], line["listen"]) for line in logged] == [("warning", "0.0.0.0")]
