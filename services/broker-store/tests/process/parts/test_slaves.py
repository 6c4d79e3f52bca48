"""The HA port opens only where that is asked for, and beside access control or TLS only in words that name the risk."""

from pathlib import Path

import pytest

from broker_store.process.parts.slaves import open_ha_port
from broker_store.settings import Settings
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import Budget
from gantry_chassis.start_refusal import StartRefused

GUARDED = {"access_key_file": "keys"}
PROTECTED = [
    GUARDED,
    {**GUARDED, "access_mode": "permissive"},
    {"tls_cert_file": "cert.pem"},
    {"tls_mode": "enforcing", "tls_cert_file": "cert.pem"},
]


def opened(**settings):
    chosen = Settings(store_dir=Path("/store"), **settings)
    return open_ha_port(chosen, machine(), Metrics(), Budget())


@pytest.mark.parametrize("protection", [{}, *PROTECTED])
def test_it_is_closed_by_default(protection):
    assert opened(**protection) is None


def test_a_plain_store_opens_it_where_it_is_on():
    assert opened(ha_protocol="on") is not None


@pytest.mark.parametrize("protection", PROTECTED)
def test_beside_access_control_or_tls_it_needs_the_word_that_names_the_risk(protection):
    with pytest.raises(StartRefused, match="ha_protocol=unprotected"):
        opened(ha_protocol="on", **protection)
    assert opened(ha_protocol="unprotected", **protection) is not None
