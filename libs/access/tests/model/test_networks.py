"""Source addresses and networks, IPv4 and IPv6."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.errors import MalformedNetwork
from gantry_access.model.networks import SourceAddress, SourceNetwork


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1/32", "10.0.0.1"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8::1/128", "2001:db8::1"),
        ("2001:db8:1::/32", "2001:db8::/32"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:10.1.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_a_network_is_written_in_its_shortest_form(text, written):
    network = SourceNetwork.parse(text)
    assert network.text == written
    assert SourceNetwork.parse(written) == network


@pytest.mark.parametrize(
    "text",
    ["", "10.0.0", "10.0.0.256", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/255.0.0.0", "10.0.0.0/-1", "10.0.0.0/¹",
     " 10.0.0.1", "fe80::1%eth0", "::1/129", "host", "10.0.0.*", "010.0.0.1"],
)  # fmt: skip
def test_other_texts_are_no_network(text):
    with pytest.raises(MalformedNetwork, match="neither an IP address nor a network"):
        SourceNetwork.parse(text)


@pytest.mark.parametrize("text", ["", "10.0.0.1:80", "host", "10.0.0.0/8"])
def test_other_texts_are_no_address(text):
    with pytest.raises(MalformedNetwork, match="is not an IP address"):
        SourceAddress.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FE80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_is_written_without_mapping_and_zone(text, written):
    assert SourceAddress.parse(text).text == written


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
        ("10.0.0.0/8", "::ffff:10.0.0.1", "::a00:1"),
        ("0.0.0.0/0", "1.2.3.4", "::1"),
        ("::/0", "::1", "1.2.3.4"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
    ],
)
def test_a_network_has_the_addresses_with_its_bits(network, inside, outside):
    assert SourceNetwork.parse(network).contains(SourceAddress.parse(inside))
    assert not SourceNetwork.parse(network).contains(SourceAddress.parse(outside))


BITS = st.integers(0, 2**32 - 1)


@given(BITS, st.integers(0, 32), BITS | st.none())
def test_a_network_has_what_the_standard_library_says(first, bits, other):
    network = ipaddress.ip_network(f"{ipaddress.IPv4Address(first)}/{bits}", strict=False)
    address = ipaddress.IPv4Address(first ^ 1 if other is None else other)
    found = SourceNetwork.parse(str(network)).contains(SourceAddress.parse(str(address)))
    assert found == (address in network)
