"""Values that settings give together."""

import pytest

from broker_store.settings import Settings


@pytest.mark.parametrize(
    ("allowed", "advertise", "hosts"),
    [
        ("", "", ""),
        ("", "m1", "m1"),
        ("mq.example.com,b", "", "mq.example.com,b"),
        ("mq", "m1", "mq,m1"),
        ("*", "m1", "*,m1"),
    ],
)
def test_the_advertised_name_may_be_used_at_the_http_port_where_gateways_ask_who_leads(
    allowed, advertise, hosts
):
    assert Settings(allowed_hosts=allowed, advertise=advertise).http_hosts == hosts
