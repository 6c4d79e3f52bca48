"""Keys are read again and again; a bad set is reported, and the one before stays."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from gantry_guard.jwt_bearer.key_source import keys_at_url, keys_of_file


def a_set(count=1):
    keys = [ed25519.Ed25519PrivateKey.generate().public_key() for _ in range(count)]
    return json.dumps(
        {"keys": [json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(key)) for key in keys]}
    ).encode()


def test_a_file_is_read_again_and_a_bad_one_keeps_the_keys_before(tmp_path):
    file = tmp_path / "jwks.json"
    followed = keys_of_file(str(file))

    async def scenario():
        assert await followed.look() is False
        assert (len(followed.keys), followed.version) == (0, 0)
        file.write_bytes(a_set(1))
        assert await followed.look() is True
        assert await followed.look() is True
        assert (len(followed.keys), followed.version) == (1, 1)
        file.write_bytes(b"{")
        assert await followed.look() is False
        file.unlink()
        assert await followed.look() is False
        assert (len(followed.keys), followed.version) == (1, 1)
        file.write_bytes(a_set(2))
        assert await followed.look() is True
        assert (len(followed.keys), followed.version) == (2, 2)

    asyncio.run(scenario())


def test_after_a_failure_the_source_is_read_again_soon(tmp_path):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        return len(pauses) == 2

    asyncio.run(keys_at_url("http://127.0.0.1:1/keys").run(sleep))
    assert pauses == [10.0, 10.0]
    file = tmp_path / "jwks.json"
    file.write_bytes(a_set())
    pauses.clear()
    asyncio.run(keys_of_file(str(file)).run(sleep))
    assert pauses == [1.0, 1.0]


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example/keys",
        "ftp://127.0.0.1/k",
        "file:keys.json",
        "keys.json",
        "http://127.0.0.1.evil/k",
    ],
)
def test_keys_come_encrypted_or_from_this_machine(url):
    with pytest.raises(ValueError, match="https"):
        keys_at_url(url)


def test_an_address_is_read_and_no_redirect_followed():
    data = a_set(2)

    class Provider(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("location", "/keys")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        port = server.server_address[1]
        good, moved = (
            keys_at_url(f"http://127.0.0.1:{port}/keys"),
            keys_at_url(f"http://127.0.0.1:{port}/moved"),
        )
        assert asyncio.run(good.look()) is True
        assert len(good.keys) == 2
        assert asyncio.run(moved.look()) is False
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
