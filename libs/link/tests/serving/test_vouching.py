"""A peer may report only its own host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_link.serving.vouching import names_itself, vouched_address


@pytest.mark.parametrize(
    ("address", "remote", "expected"),
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
def test_a_reported_address_gets_the_host_of_its_connection(address, remote, expected):
    assert vouched_address(address, remote) == expected


@given(st.text(max_size=40), st.ip_addresses())
def test_no_text_gives_the_address_of_another_host(text, remote):
    expected = vouched_address(text, str(remote))
    assert expected == "" or names_itself(expected, str(remote))


@given(st.ip_addresses(), st.ip_addresses(), st.integers(1, 65535))
def test_only_a_local_process_may_report_another_host(named, remote, port):
    address = f"[{named}]:{port}" if named.version == 6 else f"{named}:{port}"
    mapped = [getattr(one, "ipv4_mapped", None) or one for one in (named, remote)]
    assert names_itself(address, str(remote)) == (mapped[0] == mapped[1] or mapped[1].is_loopback)
