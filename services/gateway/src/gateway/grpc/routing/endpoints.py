"""Where clients reach this gateway: what routes name for every broker. Pure."""

import ipaddress

from gantry_chassis.machine.addresses import host_and_port
from gantry_link.grpc.calls import CallInfo
from gateway.grpc.proto.common import Address, Endpoints
from gateway.grpc.proto.enums import AddressScheme


class OwnEndpoints:
    """Answers with the address by which the client came: so routes work behind address translation and in containers."""

    def __init__(self, advertise: str, port: int) -> None:
        """`advertise`: the `host:port` to name in place of the client's; empty for none. `port` is the gateway's gRPC port."""
        self._advertise, self._port = advertise, port

    def listen_on(self, port: int) -> None:
        """Take the port that the gateway got, where it asked for a free one."""
        self._port = port

    def of(self, asked: Endpoints, info: CallInfo) -> Endpoints:
        """Return the endpoints for a client that asked with these.

        One that states no port gets the gateway's. One that states no address came to the call's `:authority`.
        """
        port = self._port
        if self._advertise:
            return _endpoints([host_and_port(self._advertise, port)])
        found = [(one.host, one.port or port) for one in asked.addresses if one.host]
        if not found:
            try:
                found = [host_and_port(info.headers.get(b":authority", b"").decode("latin-1"), port)]
            except ValueError:
                found = [("127.0.0.1", port)]
        return _endpoints(found)


def _endpoints(addresses: list[tuple[str, int]]) -> Endpoints:
    """Return endpoints with a scheme. Clients take one address of a name only."""
    schemes = [_scheme(host) for host, _port in addresses]
    scheme = schemes[0]
    if scheme == AddressScheme.DOMAIN_NAME:
        addresses = addresses[:1]
    same = [one for one, its in zip(addresses, schemes, strict=False) if its == scheme]
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port) for host, port in same])


def _scheme(host: str) -> AddressScheme:
    try:
        return AddressScheme.IPv4 if ipaddress.ip_address(host).version == 4 else AddressScheme.IPv6
    except ValueError:
        return AddressScheme.DOMAIN_NAME
