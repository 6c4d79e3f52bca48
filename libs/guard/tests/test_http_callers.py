"""Callers of HTTP ports: what proves them, and what a stranger at the same address can take from them."""

from __future__ import annotations

import pytest

from gantry_access.entries.contents import user_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.users import User
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.failures import FREE_FAILURES, FailureLimits
from gantry_guard.http_callers import CallerRefused, Callers
from gantry_guard.jwt_bearer.outcome import JwtRefused, VerifiedJwt

NOW_MS = 1_700_000_000_000


class OneJwt:
    """Knows one good token."""

    version = 0

    def verify(self, text, now_ms):
        if text != "good":
            raise JwtRefused("it is another one")
        return VerifiedJwt("alice", now_ms + 1000)


def test_wrong_jwts_of_an_address_keep_no_good_one_out():
    """Behind a proxy or a NAT, all clients have one address, and a JWT names no user before it is verified."""
    table = AccessTable(ClusterKeys({"k": b"k" * 32}).sealing)
    table.take([user_entry(User("alice"), 1)])
    certificates = CertificateUsers(table, is_on=False)
    callers = Callers(table, FailureLimits(lambda: 0.0), lambda: NOW_MS, OneJwt(), certificates)
    for number in range(FREE_FAILURES * 3):
        with pytest.raises(CallerRefused) as refused:
            callers.caller_of(b"Bearer bad%d" % number, "10.0.0.1")
        assert refused.value.reason == "wrong_jwt"
    assert callers.caller_of(b"Bearer good", "10.0.0.1").user == "alice"
