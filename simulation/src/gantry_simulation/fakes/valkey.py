"""A Valkey server as rate limits use it: a password, both versions of the protocol, hashes that expire, and one script.

Answers are those of valkey-server 9.1, to which a contract test compares this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import cast

from gantry_simulation.fakes import token_buckets
from gantry_simulation.fakes.not_faked import NotFaked
from gantry_simulation.fakes.resp import Answer, Malformed, Refusal, Requests, formatted
from gantry_simulation.fakes.token_buckets import Hash

VERSION = b"9.1.2"
NO_AUTH = Refusal("NOAUTH Authentication required.")
NO_AUTH_HELLO = Refusal(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be "
    "used to authenticate the client and select the RESP protocol version at the same time"
)
WRONG_PASSWORD = Refusal("WRONGPASS invalid username-password pair or user is disabled.")
OPEN_COMMANDS = (b"HELLO", b"AUTH", b"QUIT")
PROTOCOLS = (b"2", b"3")


class ValkeyServer:
    """What all connections share. Make `connection` the protocol factory of a listener."""

    def __init__(self, wall_ms: Callable[[], int], password: str = "") -> None:
        """Clients must show `password` if there is one. `wall_ms`: ms since 1970."""
        self.password = password.encode()
        self.scripts: set[str] = set()
        """Digests of loaded scripts."""
        self._wall_ms = wall_ms
        self._hashes: dict[bytes, Hash] = {}
        self._last_id = 0

    def connection(self) -> ValkeyConnection:
        """Return the protocol of a new connection."""
        self._last_id += 1
        return ValkeyConnection(self, self._last_id)

    def now_ms(self) -> int:
        """Return the wall clock, and remove what has expired."""
        now_ms = self._wall_ms()
        for key in [key for key, held in self._hashes.items() if held.expires_ms <= now_ms]:
            del self._hashes[key]
        return now_ms

    def take(self, keys: Sequence[bytes], arguments: Sequence[bytes]) -> int:
        """Run the script."""
        return token_buckets.take(self._hashes, keys, arguments, self.now_ms())

    def held(self, key: bytes) -> tuple[Hash | None, int]:
        """Return a key's hash, and the ms until it expires."""
        now_ms = self.now_ms()
        held = self._hashes.get(key)
        return held, held.expires_ms - now_ms if held is not None else -2


class ValkeyConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: ValkeyServer, number: int) -> None:
        self._server, self._number = server, number
        self._requests = Requests()
        self._version = 2
        self._is_known = not server.password
        self._commands: dict[bytes, Callable[[list[bytes]], Answer | Refusal]] = {
            b"HELLO": self._hello, b"AUTH": self._auth, b"PING": self._ping, b"CLIENT": self._client, b"SCRIPT": self._script,
            b"EVALSHA": self._evalsha, b"HMGET": self._hmget, b"PTTL": self._pttl, b"SELECT": self._select,
        }  # fmt: skip

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for requests."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer whole requests."""
        self._requests.receive(data)
        try:
            while (request := self._requests.next()) is not None and not self._transport.is_closing():
                self._answer(self._carry_out(request))
        except Malformed as malformed:
            self._answer(Refusal(f"ERR Protocol error: {malformed}"))
            self._transport.close()

    def _answer(self, answer: Answer | Refusal) -> None:
        self._transport.write(formatted(answer, self._version))

    def _carry_out(self, request: list[bytes]) -> Answer | Refusal:
        name, arguments = request[0].upper(), request[1:]
        if name not in self._commands:
            raise NotFaked(f"the fake Valkey has no {name.decode()}")
        if not self._is_known and name not in OPEN_COMMANDS:
            return NO_AUTH
        try:
            return self._commands[name](arguments)
        except IndexError:
            return Refusal(f"ERR wrong number of arguments for '{name.decode().lower()}' command")

    # Commands

    def _hello(self, arguments: list[bytes]) -> Answer | Refusal:
        if arguments and arguments[0] not in PROTOCOLS:
            return Refusal("NOPROTO unsupported protocol version")
        more = arguments[1:]
        if more:
            if more[0].upper() != b"AUTH":
                raise NotFaked(f"the fake Valkey has no HELLO {more[0].decode()}")
            refusal = self._auth(more[1:])
            if isinstance(refusal, Refusal):
                return refusal
        if not self._is_known:
            return NO_AUTH_HELLO
        self._version = int(arguments[0]) if arguments else self._version
        modules: dict[str, Answer] = {"name": b"lua", "ver": 1, "path": b"lua", "args": []}
        return {
            "server": b"valkey", "version": VERSION, "proto": self._version, "id": self._number, "mode": b"standalone",
            "role": b"master", "modules": [modules],
        }  # fmt: skip

    def _auth(self, arguments: list[bytes]) -> Answer | Refusal:
        user, password = (b"default", arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])
        if not self._server.password and len(arguments) == 1:
            return Refusal(
                "ERR AUTH <password> called without any password configured for the default user. "
                "Are you sure your configuration is correct?"
            )
        if user != b"default" or (self._server.password and password != self._server.password):
            return WRONG_PASSWORD
        self._is_known = True
        return "OK"

    def _ping(self, arguments: list[bytes]) -> Answer:
        return arguments[0] if arguments else "PONG"

    def _select(self, arguments: list[bytes]) -> Answer | Refusal:
        if arguments[0] != b"0":
            raise NotFaked("the fake Valkey has one database")
        return "OK"

    def _client(self, arguments: list[bytes]) -> Answer | Refusal:
        what = arguments[0]
        if what.upper() == b"SETINFO":
            return "OK"
        if what.upper() == b"MAINT_NOTIFICATIONS":  # of another server; clients ask whether it is that
            return Refusal(f"ERR unknown subcommand '{what.decode()}'. Try CLIENT HELP.")
        raise NotFaked(f"the fake Valkey has no CLIENT {what.decode()}")

    def _script(self, arguments: list[bytes]) -> Answer:
        digest = sha1(arguments[1]).hexdigest()  # noqa: S324 - the protocol's
        if arguments[0].upper() != b"LOAD" or digest != token_buckets.DIGEST:
            raise NotFaked(f"the fake Valkey does not know SCRIPT {arguments[0].decode()} of {digest}")
        self._server.scripts.add(digest)
        return digest.encode()

    def _evalsha(self, arguments: list[bytes]) -> Answer | Refusal:
        digest, count = arguments[0].decode().lower(), int(arguments[1])
        if digest not in self._server.scripts:
            return Refusal("NOSCRIPT No matching script.")
        return self._server.take(arguments[2 : 2 + count], arguments[2 + count :])

    def _hmget(self, arguments: list[bytes]) -> Answer | Refusal:
        held, _ = self._server.held(arguments[0])
        return [held.fields.get(name) if held is not None else None for name in arguments[1:]]

    def _pttl(self, arguments: list[bytes]) -> Answer:
        return self._server.held(arguments[0])[1]
