"""The users that verified client certificates name, where the setting `tls_users` lets a certificate prove one.

A certificate says only which user its connection is of. What the user may do, and whether it is disabled or has ended, its entry says. It
never proves one of Gantry's own services: they introduce themselves with the cluster's keys.
"""

from __future__ import annotations

from gantry_access.entries.table import AccessTable
from gantry_guard.callers import Connected
from gantry_link.serving.server import CERTIFICATE


class CertificateUsers:
    """Finds the user of a connection by the name in its certificate."""

    def __init__(self, table: AccessTable, *, is_on: bool) -> None:
        """`is_on`: the setting `tls_users`."""
        self._table, self.is_on = table, is_on

    def name_of(self, peer: Connected) -> str:
        """Return the name in the verified certificate of a peer, be it a user's or not; empty without one, or while the setting is off."""
        return str(peer.attributes.get(CERTIFICATE, "")) if self.is_on else ""

    def user_of(self, peer: Connected) -> str:
        """Return the user that the certificate of a peer proves; empty if it proves none."""
        name = self.name_of(peer)
        return name if self.is_user(name) else ""

    def is_user(self, name: str) -> bool:
        """Whether the name in a verified certificate, taken whole and as written, is that of a user."""
        account = self._table.state.find(name) if self.is_on and name else None
        return account is not None and not account.user.is_inner
