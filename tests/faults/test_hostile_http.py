"""Malformed HTTP over a real socket: refused with a 4xx problem or closed, never a 500, and the gateway keeps serving."""

from __future__ import annotations

import pytest

from .raw_http import JSON, ONE, ORDERS, HttpLine, check_refused, chunked, goes_on

pytestmark = [pytest.mark.crash, pytest.mark.cluster, pytest.mark.timeout(400)]
MIB = 1024 * 1024
DEEP = b"[" * 10_000 + b"]" * 10_000

POST = f"POST {ORDERS} HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GARBAGE = {
    "bytes": bytes(range(256)) * 4,
    "version 9.9": b"GET /v1/topics HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "length that is none": POST + b"Content-Length: abc\r\n\r\n",
    "negative length": POST + b"Content-Length: -5\r\n\r\n",
    "length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": POST + b"Content-Length: 27\r\nContent-Length: 3\r\n\r\n" + ONE,
    "length and chunks": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(ONE),
    "chunk size that is none": CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": CHUNKED + b"fffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "chunk that lies": CHUNKED + b"2\r\nabcdef\r\n0\r\n\r\n",
    "header without colon": b"GET /v1/topics HTTP/1.1\r\nHost g\r\n\r\n",
    "header name with blank": b"GET /v1/topics HTTP/1.1\r\nBad Name: x\r\n\r\n",
    "NUL in a header": b"GET /v1/topics HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    "NUL in the path": b"GET /v1/to\x00pics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "100 KiB path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "400 KiB header": b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000 + b"\r\n\r\n",
    "9,000 headers": b"GET /v1/topics HTTP/1.1\r\n" + b"X: yyyyyyyy\r\n" * 9000 + b"\r\n",
    "long method": b"A" * 1000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown transfer encoding": POST + b"Transfer-Encoding: rot13\r\n\r\n" + ONE,
}


@pytest.mark.parametrize("name", GARBAGE)
def test_invalid_http_is_refused_or_closed_and_other_clients_are_served(gateway_port: int, name: str) -> None:
    with HttpLine(gateway_port) as healthy, HttpLine(gateway_port) as line:
        try:
            line.write(GARBAGE[name])
        except ConnectionError:
            answer = None
        else:
            answer = line.answer()
        assert answer is None or 400 <= answer.status < 500, answer
        assert line.answer() is None, "no part of it is parsed as a second request"
        going = healthy.call("POST", ORDERS, ONE, JSON)
        assert going is not None
        assert going.status == 200


def test_chunked_bodies_of_any_split_are_messages(gateway_port: int) -> None:
    with HttpLine(gateway_port) as line:
        for size in (1, 2, 7, 100):
            parts = [ONE[at : at + size] for at in range(0, len(ONE), size)]
            line.write(CHUNKED + chunked(*parts))
            answer = line.answer()
            assert answer is not None
            assert answer.status == 200
        line.write(CHUNKED + chunked(b'{"messages":[{"body":"', b"\xff", b'"}]}'))
        check_refused(line.answer(), "not UTF-8 in chunks")
        line.write(CHUNKED + chunked(DEEP))
        check_refused(line.answer(), "deep in chunks")
        goes_on(gateway_port)


def test_a_chunked_body_over_the_limit_is_413_while_it_is_sent(gateway_port: int) -> None:
    with HttpLine(gateway_port) as line:
        line.write(CHUNKED)
        piece = b"100000\r\n" + b"x" * MIB + b"\r\n"
        try:
            for _ in range(40):
                line.write(piece)
        except ConnectionError:
            pass
        answer = line.answer()
        assert answer is None or answer.status == 413
    goes_on(gateway_port)


def test_expect_100_is_answered_before_the_body_or_with_the_refusal(gateway_port: int) -> None:
    with HttpLine(gateway_port) as line:
        line.write(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(ONE))
        going = line.answer()
        assert going is not None
        assert going.status == 100
        line.write(ONE)
        answer = line.answer()
        assert answer is not None
        assert answer.status == 200
    with HttpLine(gateway_port) as line:
        line.write(POST + b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n")
        answer = line.answer()
        check_refused(answer, "too large")
        assert answer is not None
        assert answer.status == 413


def test_pipelined_requests_are_answered_in_order_even_after_refused_ones(gateway_port: int) -> None:
    good = POST + b"Content-Length: %d\r\n\r\n" % len(ONE) + ONE
    bad = POST + b"Content-Length: 1\r\n\r\n["
    with HttpLine(gateway_port) as line:
        line.write((good + bad) * 25)
        statuses = [answer.status for answer in (line.answer() for _ in range(50)) if answer is not None]
    assert statuses == [200, 400] * 25


def test_slow_clients_and_missing_bodies_block_no_client(gateway_port: int) -> None:
    with HttpLine(gateway_port) as healthy:
        slow = [HttpLine(gateway_port) for _ in range(100)]
        for number, line in enumerate(slow):
            line.write(POST[: number + 1] if number % 2 else POST + b"Content-Length: 500\r\n\r\n{")
        for _ in range(20):
            answer = healthy.call("POST", ORDERS, ONE, JSON)
            assert answer is not None
            assert answer.status == 200
        for line in slow:
            line.__exit__()


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_unsupported_methods_are_4xx(gateway_port: int, method: str) -> None:
    with HttpLine(gateway_port) as line:
        answer = line.call(method, ORDERS)
        assert answer is None or 400 <= answer.status < 500
    goes_on(gateway_port)
