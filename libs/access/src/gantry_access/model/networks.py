"""Source addresses of requests, and the networks to which a policy entry may be limited.

An IPv4 address mapped into IPv6 (`::ffff:10.0.0.1`, as a socket for both reports it) is that IPv4 address.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from gantry_access.errors import MalformedNetwork

MAPPED_BITS = 96
"""Bits before the IPv4 address in a mapped one."""


class SourceAddress(NamedTuple):
    """The IP address that a request comes from. Parse it once per connection: parsing costs as much as a decision."""

    version: int
    value: int

    @classmethod
    def parse(cls, text: str) -> SourceAddress:
        """Return the address of a text, without its zone (`%eth0`). Raises MalformedNetwork."""
        try:
            found = ipaddress.ip_address(text.partition("%")[0])
        except ValueError as error:
            raise MalformedNetwork(f"{text[:64]!r} is not an IP address") from error
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
            found = found.ipv4_mapped
        return cls(found.version, int(found))

    @property
    def text(self) -> str:
        """The address as text."""
        return _address_text(self.version, self.value)


class SourceNetwork(NamedTuple):
    """One address, or all that begin with the same bits. `::/0` has every IPv6 address and no IPv4 address."""

    version: int
    first: int
    prefix_bits: int

    @classmethod
    def parse(cls, text: str) -> SourceNetwork:
        """Return the network of an address or of CIDR text; bits behind the prefix are cleared. Raises MalformedNetwork."""
        _, slash, bits = text.partition("/")
        if "%" in text or (slash and not (bits.isascii() and bits.isdigit())):
            raise MalformedNetwork(f"{text[:64]!r} is neither an IP address nor a network as 10.0.0.0/8")
        try:
            found = ipaddress.ip_network(text, strict=False)
        except ValueError as error:
            raise MalformedNetwork(
                f"{text[:64]!r} is neither an IP address nor a network as 10.0.0.0/8"
            ) from error
        return cls.of(found)

    @classmethod
    def of(cls, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> SourceNetwork:
        """Return a network; as IPv4 if it is mapped into IPv6."""
        if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= MAPPED_BITS:
            mapped = network.network_address.ipv4_mapped
            if mapped:
                return cls(4, int(mapped), network.prefixlen - MAPPED_BITS)
        return cls(network.version, int(network.network_address), network.prefixlen)

    def contains(self, source: SourceAddress) -> bool:
        """Whether an address is in this network."""
        version, first, prefix_bits = self
        rest = (32 if version == 4 else 128) - prefix_bits
        return source[0] == version and source[1] >> rest == first >> rest

    @property
    def text(self) -> str:
        """The network as text: the address alone if it is a single one."""
        address = _address_text(self.version, self.first)
        is_single = self.prefix_bits == (32 if self.version == 4 else 128)
        return address if is_single else f"{address}/{self.prefix_bits}"


def _address_text(version: int, value: int) -> str:
    return str(ipaddress.IPv4Address(value) if version == 4 else ipaddress.IPv6Address(value))
