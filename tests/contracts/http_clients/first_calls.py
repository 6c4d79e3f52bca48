"""Makes each call with its own client: `kind base (path body)...`; prints one line per call, status and body."""

from __future__ import annotations

import asyncio
import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

JSON = {"Content-Type": "application/json"}


def by_urllib(url: str, body: bytes) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, JSON), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def by_http_client(url: str, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("POST", parts.path, body, JSON)
    answer = connection.getresponse()
    return answer.status, answer.read()


def by_httpx(url: str, body: bytes) -> tuple[int, bytes]:
    import httpx

    answer = httpx.post(url, content=body, headers=JSON, timeout=60)
    return answer.status_code, answer.content


def by_requests(url: str, body: bytes) -> tuple[int, bytes]:
    import requests

    answer = requests.post(url, data=body, headers=JSON, timeout=60)
    return answer.status_code, answer.content


def by_urllib3(url: str, body: bytes) -> tuple[int, bytes]:
    import urllib3

    answer = urllib3.PoolManager().request("POST", url, body=body, headers=JSON)
    return answer.status, answer.data


def by_aiohttp(url: str, body: bytes) -> tuple[int, bytes]:
    import aiohttp

    async def post() -> tuple[int, bytes]:
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=JSON) as answer:
            return answer.status, await answer.read()

    return asyncio.run(post())


KINDS: dict[str, Callable[[str, bytes], tuple[int, bytes]]] = {
    "urllib": by_urllib,
    "http.client": by_http_client,
    "httpx": by_httpx,
    "requests": by_requests,
    "urllib3": by_urllib3,
    "aiohttp": by_aiohttp,
}

if __name__ == "__main__":
    kind, base, *words = sys.argv[1:]
    for path, body in zip(words[::2], words[1::2], strict=True):
        status, answer = KINDS[kind](base + path, body.encode())
        sys.stdout.write(f"{status} {answer.decode().strip()}\n")
