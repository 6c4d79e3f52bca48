"""What is told to others is never the address that means every address."""

import ipaddress

import pytest

from gantry_chassis.addresses import EVERYWHERE, reachable_address


@pytest.mark.parametrize("listen", sorted(EVERYWHERE))
def test_listening_everywhere_becomes_one_real_address(listen: str) -> None:
    address = ipaddress.ip_address(reachable_address(listen))
    assert not address.is_unspecified


def test_a_named_address_stays_as_it_is() -> None:
    assert reachable_address("127.0.0.1") == "127.0.0.1"
    assert reachable_address("mq.example") == "mq.example"
