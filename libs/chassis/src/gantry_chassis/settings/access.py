"""Settings of access control and what they mean. `gantry_guard` reads them."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.settings.peers import PeerSettings


class AccessSettings(PeerSettings, frozen=True, kw_only=True):
    """A service's own settings extend these. Access control is on where a key file is named."""

    access_key_file: Annotated[
        str,
        Meta(
            description="File with the cluster's keys, one a line: key id and Base64 of 32 random bytes, the current one first; mode 0600. Empty: access control is off."
        ),
    ] = ""
    access_mode: Annotated[
        Literal["enforce", "permissive"],
        Meta(
            description="permissive: what access control would refuse is counted, noted in the audit log as permitted, and handled as if it were off; requests about users, policies and tokens are refused nevertheless. A step while a running system is switched on."
        ),
    ] = "enforce"
    access_audit_file: Annotated[
        str,
        Meta(
            description="File of JSON lines with refused requests, allowed ones by count, and changes; renamed to .1 at 64 MiB. Empty: none."
        ),
    ] = ""
    access_validators: Annotated[
        str,
        Meta(
            description="Access validators, separated by commas, which may refuse what users and policies allow: module:Class, or names of entry points of the group gantrymq.access. Needs access_key_file."
        ),
    ] = ""
    access_addresses: Annotated[
        str,
        Meta(
            description="Further addresses, as IP:port separated by commas, at which Gantry's own services reach this one, such as that of a router that passes connections on; *: any."
        ),
    ] = ""
    tls_users: Annotated[
        bool,
        Meta(
            description="A request without a signature or Authorization header is of the user whose name is in the connection's verified client certificate: its first SAN URI, or else its first DNS name. Needs access_key_file, and tls_client_auth=optional or require."
        ),
    ] = False
    insecure: Annotated[
        bool,
        Meta(
            description="Listen on addresses that other machines reach although access control is off. Each start logs it."
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse users by certificate where no certificate is verified, or no user exists."""
        super().__post_init__()
        if self.tls_users and not self.access_key_file:
            raise ValueError("tls_users=true needs users: set access_key_file")
        if self.tls_users and self.tls_client_auth == "none":
            raise ValueError(
                "tls_users=true needs verified client certificates: set tls_client_ca_file and tls_client_auth=optional or require"
            )

    @property
    def is_guarded(self) -> bool:
        """Whether access control is on."""
        return bool(self.access_key_file)

    @property
    def is_permissive(self) -> bool:
        """Whether access control only notes what it would refuse."""
        return self.access_mode == "permissive"

    @property
    def is_enforced(self) -> bool:
        """Whether access control keeps out whom it does not know. Only then may other machines reach a port without `insecure`."""
        return self.is_guarded and not self.is_permissive

    @property
    def further_addresses(self) -> tuple[str, ...]:
        """The addresses of access_addresses."""
        return tuple(one.strip() for one in self.access_addresses.split(",") if one.strip())
