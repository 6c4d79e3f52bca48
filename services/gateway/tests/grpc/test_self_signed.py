"""The certificate that the gRPC port makes for itself."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from gateway.grpc.self_signed import SelfSigned

pytestmark = pytest.mark.anyio


class NoProtocol(asyncio.Protocol):
    pass


async def test_a_client_that_verifies_nothing_is_answered_by_tls_and_chooses_h2():
    certificate = SelfSigned(lambda: 1_767_225_600.0)
    context = certificate.context(("h2",))
    assert context is certificate.context(("h2",))
    assert certificate.is_plain_allowed
    loop = asyncio.get_running_loop()
    server = await loop.create_server(NoProtocol, "127.0.0.1", 0, ssl=context)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    trusting.set_alpn_protocols(["h2"])
    port = server.sockets[0].getsockname()[1]
    transport, _ = await loop.create_connection(NoProtocol, "127.0.0.1", port, ssl=trusting)
    found = transport.get_extra_info("ssl_object")
    assert found.selected_alpn_protocol() == "h2"
    assert found.version() == "TLSv1.3"
    transport.close()
    server.close()


async def test_a_client_that_verifies_refuses_it():
    context = SelfSigned(lambda: 1_767_225_600.0).context(("h2",))
    server = await asyncio.get_running_loop().create_server(NoProtocol, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
    server.close()
