"""Peers name themselves and nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_link.vouching import names_itself, vouched_address


@pytest.mark.parametrize(
    ("address", "remote", "told"),
    [
        ("10.0.0.7:10921", "10.0.0.7", "10.0.0.7:10921"),
        ("10.0.0.7:10921", "::ffff:10.0.0.7", "10.0.0.7:10921"),
        ("victim.example:22", "10.0.0.7", "10.0.0.7:22"),
        ("10.0.0.8:22", "10.0.0.7", "10.0.0.7:22"),
        ("127.0.0.1:6379", "10.0.0.7", "10.0.0.7:6379"),
        ("localhost:6379", "10.0.0.7", "10.0.0.7:6379"),
        ("0.0.0.0:6379", "10.0.0.7", "10.0.0.7:6379"),
        ("[fd00::9]:1", "fd00::8", "[fd00::8]:1"),
        ("[fd00:0::8]:1", "fd00::8", "[fd00:0::8]:1"),
        ("scheduler:10921", "127.0.0.1", "scheduler:10921"),
        ("scheduler:10921", "::1", "scheduler:10921"),
        ("", "10.0.0.7", ""),
        ("no port", "10.0.0.7", ""),
        ("10.0.0.8:1", "", ""),
    ],
)
def test_others_are_told_the_host_that_the_connection_comes_from(address, remote, told):
    assert vouched_address(address, remote) == told


@given(st.text(max_size=40), st.ip_addresses())
def test_no_text_leads_others_to_a_host_that_did_not_connect(text, remote):
    told = vouched_address(text, str(remote))
    assert told == "" or names_itself(told, str(remote))


@given(st.ip_addresses(), st.ip_addresses(), st.integers(1, 65535))
def test_a_host_names_another_one_only_from_this_machine(named, remote, port):
    address = f"[{named}]:{port}" if named.version == 6 else f"{named}:{port}"
    mapped = [getattr(one, "ipv4_mapped", None) or one for one in (named, remote)]
    assert names_itself(address, str(remote)) == (mapped[0] == mapped[1] or mapped[1].is_loopback)
