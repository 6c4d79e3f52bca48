"""What is told to others is never the address that means every address; that there are others is said."""

import ipaddress

import pytest
from structlog.testing import capture_logs

from gantry_chassis.addresses import EVERYWHERE, reachable_address, warn_if_open


@pytest.mark.parametrize("listen", sorted(EVERYWHERE))
def test_listening_everywhere_becomes_one_real_address(listen: str) -> None:
    address = ipaddress.ip_address(reachable_address(listen))
    assert not address.is_unspecified


def test_a_named_address_stays_as_it_is() -> None:
    assert reachable_address("127.0.0.1") == "127.0.0.1"
    assert reachable_address("mq.example") == "mq.example"


@pytest.mark.parametrize(("listen", "is_open"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True)])
def test_a_port_that_others_reach_is_warned_of(listen: str, *, is_open: bool) -> None:
    with capture_logs() as logged:
        warn_if_open(listen)
    assert [event["listen"] for event in logged] == [listen] * is_open
