"""A gateway's port given as a nameserver's: the error explains it, from the gateway's own answer."""

import pytest

from gantrymq import ConnectionFailed, Message, Producer
from gantrymq.testing import System

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]


async def test_the_port_of_a_gateway_is_not_a_nameserver(gantry_broker: System) -> None:
    gateway = gantry_broker.http.removeprefix("http://")
    async with Producer("lost", nameservers=gateway) as producer:
        with pytest.raises(
            ConnectionFailed,
            match="an HTTP answer: this is an HTTP port; the nameserver's default port is 9876",
        ):
            await producer.send(Message("T", b"x"))
