"""The fakes of NATS and Valkey answer as the real servers do, byte for byte where the protocol decides them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from hashlib import sha1
from pathlib import Path

import pytest
from real_servers import KINDS, SECRET, Server, Talk, nats, valkey

from gantry_simulation.fakes import token_buckets
from gateway.stores import redis_limits

pytestmark = pytest.mark.anyio

PONG = b"PONG\r\n"
INFO = re.compile(rb"INFO (\{.*?\}) *\r\n")
DECIDED = ("proto", "headers", "auth_required", "max_payload", "client_ip", "connect_info", "remote_account")
"""Fields of INFO that say the same about every server of this configuration."""
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n'
CONNECT_TOKEN = b'CONNECT {"verbose":false,"protocol":1,"auth_token":"%b"}\r\n'

Run = Callable[..., AbstractAsyncContextManager[Server]]
Scenario = Callable[[Server], Awaitable[list[bytes]]]


async def both(run: Run, scenario: Scenario, directory: Path, *, has_secret: bool = False) -> list[bytes]:
    """Run a scenario with the fake and with the real server; return what both answered."""
    found: list[list[bytes]] = []
    for kind in KINDS:
        (directory / kind).mkdir()
        async with run(kind, directory / kind, has_secret=has_secret) as server:
            found.append([INFO.sub(_known_fields, answer) for answer in await scenario(server)])
    assert found[0] == found[1]
    return found[0]


def _known_fields(info: re.Match[bytes]) -> bytes:
    fields = json.loads(info[1])
    return f"INFO {[(name, fields[name]) for name in DECIDED if name in fields]}\r\n".encode()


# NATS


async def client(server: Server, connect: bytes = CONNECT) -> Talk:
    talk = await server.open()
    await talk.until(b"\r\n")
    await talk.ask(connect + b"PING\r\n", b"} \r\n")  # the INFO that follows the first PONG
    return talk


async def fence(talk: Talk, data: bytes) -> bytes:
    return await talk.ask(data + b"PING\r\n", PONG)


async def test_nats_greets_and_confirms_a_client(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        return [
            await talk.until(b"\r\n"),
            await talk.ask(CONNECT + b"PING\r\n", b"} \r\n"),
            await fence(talk, b""),
        ]

    answers = await both(nats, scenario, tmp_path)
    assert answers[1].startswith(PONG + b"INFO ")


@pytest.mark.parametrize(
    "first", [b"PING\r\n", b"SUB a 1\r\n", CONNECT, CONNECT_TOKEN % b"other", CONNECT_TOKEN % SECRET.encode()]
)
async def test_nats_serves_those_alone_that_show_the_token(tmp_path: Path, first: bytes) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        return [await talk.until(b"\r\n"), await fence(talk, first)]

    answers = await both(nats, scenario, tmp_path, has_secret=True)
    assert answers[1] == (PONG if SECRET.encode() in first else b"-ERR 'Authorization Violation'\r\n<end>")


async def test_nats_delivers_by_subject(tmp_path: Path) -> None:
    subjects = ("a", "a.b", "a.b.c", "b.b", "gantry.route.Orders", "gantry.data", "_INBOX.1")
    patterns = ("a", "a.*", "a.>", "*.b", "*", ">", "a.*.c", "gantry.route.*", "x")

    async def scenario(server: Server) -> list[bytes]:
        reader, writer = await client(server), await client(server)
        answers: list[bytes] = []
        for number, pattern in enumerate(patterns, 1):
            await fence(reader, f"SUB {pattern} {number}\r\n".encode())
            sends = "".join(f"PUB {subject} {len(subject)}\r\n{subject}\r\n" for subject in subjects)
            answers += [await fence(writer, sends.encode()), await fence(reader, b"")]
            answers.append(await fence(reader, f"UNSUB {number}\r\n".encode()))
        return answers

    answers = await both(nats, scenario, tmp_path)
    assert answers[1] == b"MSG a 1 1\r\na\r\nPONG\r\n"


async def test_nats_carries_payloads_replies_and_its_own_subject_back(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk, silent = (
            await client(server),
            await client(server, CONNECT.replace(b'"protocol"', b'"echo":false,"protocol"')),
        )
        sends = b"pub t answer.here 5\r\na\r\nbc\r\nPUB\tt\t0\r\n\r\n"
        return [
            await fence(talk, b"SUB t  1\r\n" + sends.replace(b"\t", b" ")),
            await fence(silent, b"sub t 9\r\nPUB t 1\r\nx\r\n"),
            await fence(talk, b""),
            await fence(talk, b"UNSUB 1 4\r\n" + b"PUB t 1\r\ny\r\n" * 3),
            await fence(talk, b"SUB t 2\r\nUNSUB 2\r\nPUB t 1\r\nz\r\n"),
        ]

    answers = await both(nats, scenario, tmp_path)
    assert answers[0] == b"MSG t 1 answer.here 5\r\na\r\nbc\r\nMSG t 1 0\r\n\r\nPONG\r\n"


async def test_nats_gives_a_message_to_one_member_of_a_queue_group(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        members = [await client(server) for _ in range(3)]
        writer = await client(server)
        for member in members:
            await fence(member, b"SUB jobs group 1\r\n")
        await fence(writer, b"PUB jobs 1\r\nx\r\n" * 30)
        got = [(await fence(member, b"")).count(b"MSG jobs 1 1\r\nx\r\n") for member in members]
        return [str(sum(got)).encode(), str(min(got) > 0).encode()]

    assert await both(nats, scenario, tmp_path) == [b"30", b"True"]


@pytest.mark.parametrize(
    "wrong",
    [b"HELLO\r\n", b"PUB t 1048577\r\n", b"SUB a..b 1\r\n", b"SUB a.>.b 1\r\n", b"PUB " + b"x" * 5000],
)
async def test_nats_refuses(tmp_path: Path, wrong: bytes) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await client(server)
        return [await fence(talk, wrong)]

    answers = await both(nats, scenario, tmp_path)
    assert answers[0].startswith(b"-ERR '")


async def test_nats_says_ok_when_asked_to(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        await talk.until(b"\r\n")
        return [await fence(talk, b'CONNECT {"verbose":true}\r\nSUB a 1\r\nPUB b 1\r\nx\r\nUNSUB 1\r\n')]

    assert await both(nats, scenario, tmp_path) == [b"+OK\r\n" * 4 + PONG]


# Valkey


def request(*words: str | bytes) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


END = request("PING", "the end")
ENDED = b"$7\r\nthe end\r\n"
SCRIPT = redis_limits._TAKE


async def asked(talk: Talk, *words: str | bytes) -> bytes:
    return (await talk.ask(request(*words) + END, ENDED)).removesuffix(ENDED)


async def test_valkey_is_opened_by_its_password(tmp_path: Path) -> None:
    ways = (
        ("PING",), ("HELLO", "3"), ("HELLO", "3", "AUTH", "default", "no"), ("HELLO", "4"), ("AUTH", "no"), ("AUTH", "x", SECRET),
        ("HELLO",), ("AUTH", SECRET), ("PING",), ("CLIENT", "SETINFO", "LIB-NAME", "redis-py"), ("SELECT", "0"),
        ("CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none"), ("EVALSHA", "0" * 40, "0"),
    )  # fmt: skip

    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        answers: list[bytes] = []
        for words in ways:
            talk.writer.write(request(*words))
            answers.append(await talk.until(b"\r\n"))
        return answers

    answers = await both(valkey, scenario, tmp_path, has_secret=True)
    assert answers[-5:-3] == [b"+PONG\r\n", b"+OK\r\n"]


@pytest.mark.parametrize("version", ["2", "3"])
async def test_valkey_says_hello_in_both_versions(tmp_path: Path, version: str) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        answer = await talk.ask(request("HELLO", version) + END, ENDED)
        answer = re.sub(rb"(\$2\r\nid\r\n:)\d+", rb"\1N", answer)
        missing = await asked(talk, "HMGET", "no", "a", "b")
        return [re.sub(rb"\d+\.\d+\.\d+", b"V", answer), missing]

    await both(valkey, scenario, tmp_path)


async def test_valkey_without_a_password_refuses_one(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        return [
            await asked(talk, "AUTH", "x"),
            await asked(talk, "AUTH", "default", "x"),
            await asked(talk, "AUTH"),
        ]

    await both(valkey, scenario, tmp_path)


async def test_valkey_limits_rates_as_its_script_says(tmp_path: Path) -> None:
    """Rates of one message in a thousand seconds: the time that passes between requests changes no digit that is compared."""
    takes = (
        ("1", "0.001", "3"), ("1", "0.001", "3"), ("2", "0.001", "3"), ("1", "0.001", "3"), ("2.5", "0.001", "3"),
    )  # fmt: skip

    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        digest = token_buckets.DIGEST
        answers = [
            await asked(talk, "EVALSHA", digest, "1", "k", "1", "1", "1"),
            await asked(talk, "SCRIPT", "LOAD", SCRIPT),
        ]
        for take in takes:
            answers.append(_rounded(await asked(talk, "EVALSHA", digest, "1", "one", *take)))
            answers.append(_rounded(await asked(talk, "PTTL", "one")))
        several = await asked(
            talk, "EVALSHA", digest, "2", "large", "more", "7.25", "0.001", "5", "1000", "9"
        )
        held = [await asked(talk, "HMGET", key, "tokens") for key in ("large", "more", "one")]
        tokens = float(held[2].split(b"\r\n")[2])
        return [*answers, several, *held[:2], b"%.1f" % tokens]

    answers = await both(valkey, scenario, tmp_path)
    assert answers[-3:-1] == [b"*1\r\n$5\r\n-2.25\r\n", b"*1\r\n$4\r\n1.75\r\n"]


def _rounded(answer: bytes) -> bytes:
    """An answer in ms, without what the seconds since its first request change."""
    value = int(answer[1:])
    return str(value if value < 1 else -(-value // 100_000)).encode()


async def test_valkey_forgets_a_full_bucket(tmp_path: Path) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        await asked(talk, "SCRIPT", "LOAD", SCRIPT)
        await asked(talk, "EVALSHA", token_buckets.DIGEST, "1", "fast", "1", "1000000", "1")
        answers: list[bytes] = [await asked(talk, "HMGET", "fast", "tokens")]
        while await asked(talk, "PTTL", "fast") != b":-2\r\n":
            pass
        return [*answers, await asked(talk, "HMGET", "fast", "tokens")]

    await both(valkey, scenario, tmp_path)


@pytest.mark.parametrize(
    "wrong", [b"*1\r\n+PING\r\n", b"*1\r\n$x\r\n", b"*x\r\n", b"*3000000000\r\n", b"*1\r\n$-1\r\n"]
)
async def test_valkey_refuses_what_is_no_request(tmp_path: Path, wrong: bytes) -> None:
    async def scenario(server: Server) -> list[bytes]:
        talk = await server.open()
        return [await talk.ask(b"*0\r\nPING\r\n" + wrong, b"never")]

    answers = await both(valkey, scenario, tmp_path)
    assert answers[0].startswith(b"+PONG\r\n-ERR Protocol error: ")


def test_the_script_that_the_fake_knows_is_the_gateways() -> None:
    assert sha1(SCRIPT.encode()).hexdigest() == token_buckets.DIGEST
