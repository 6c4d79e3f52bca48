"""White addresses of ACL 1.0 as networks."""

import pytest

from gantry_access.errors import MalformedNetwork
from gantry_access.formats.white_addresses import parse_white_address
from gantry_access.model.networks import SourceAddress


@pytest.mark.parametrize("text", ["*", "*.*.*.*", "*:*:*:*:*:*:*:*", " * "])
def test_everywhere(text):
    assert parse_white_address(text) is None


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("192.168.0.1", ["192.168.0.1"]),
        ("192.168.*.*", ["192.168.0.0/16"]),
        ("10.*.*.*", ["10.0.0.0/8"]),
        ("192.168.1.*", ["192.168.1.0/24"]),
        ("192.168.1.0-255", ["192.168.1.0/24"]),
        ("192.168.1.4-7", ["192.168.1.4/30"]),
        ("192.168.1.1-3", ["192.168.1.1", "192.168.1.2/31"]),
        ("192.168.2-3.*", ["192.168.2.0/23"]),
        ("192.168.1.7-7", ["192.168.1.7"]),
        ("192.168.1.{1,2}", ["192.168.1.1", "192.168.1.2"]),
        ("192.168.1.{ 1 , 2 }", ["192.168.1.1", "192.168.1.2"]),
        ("192.168.1.1, 10.0.0.1", ["192.168.1.1", "10.0.0.1"]),
        ("2001:db8::1", ["2001:db8::1"]),
        ("1050::5:600:{1,2}", ["1050::5:600:1", "1050::5:600:2"]),
        ("2001:db8:0:0:0:0:0:*", ["2001:db8::/112"]),
        ("2001:db8::1:0-ff", ["2001:db8::1:0/120"]),
        ("2001:db8:*:*:*:*:*:*", ["2001:db8::/32"]),
        ("2001:DB8::1,10.0.0.1", ["2001:db8::1", "10.0.0.1"]),
    ],
)
def test_each_form_is_its_networks(text, networks):
    assert [network.text for network in parse_white_address(text) or ()] == networks


@pytest.mark.parametrize("low", [0, 1, 9])
@pytest.mark.parametrize("high", [9, 10, 255])
def test_a_range_has_its_ends_and_nothing_beside(low, high):
    networks = parse_white_address(f"10.1.{low}-{high}.*")
    assert networks is not None
    for field in range(256):
        for last in (0, 255):
            source = SourceAddress.parse(f"10.1.{field}.{last}")
            assert any(network.contains(source) for network in networks) == (low <= field <= high)


@pytest.mark.parametrize(
    "text",
    [
        "", "host", "10.0.0", "10.0.0.256", "*.0.0.1", "*.168.1.1", "1-2.*.*.*", "10.0.*.1", "10.0.1-2.3", "10.0.0.3-1",
        "10.0.0.-1", "10.0.0.1-", "10.0.0.1-256", "10.0.*", "10.0.0.0.*", "10.0.0.1{2,3}", "10.0.0.{}", "10.0.0.1}",
        "10.0.0.{1-2}", "10.0.0.1,", "10.0.*.*,10.0.0.1", "10.0.0.0/8", "10.0.0.1-٢", "2001:db8::*:1", "2001:db8:*",
        "1:2:3:4:5:6:7:8:*", "1::2::*", "2001:db8::0-fffff", "10.0.0.+1-2", "10.0.0.1_0-20",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(MalformedNetwork):
        parse_white_address(text)
