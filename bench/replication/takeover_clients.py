"""Clients that send one message after the other, and remember when each send ended: HTTP, the SDK, RocketMQ's client. Part of takeover.py."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from gantrymq import Message, Producer
from gantrymq.errors import GantryError
from measuring.system import end_process
from peers.rocketmq_run import Java

PAUSE_SECONDS = 0.01
SEND_SECONDS_MAX = 15.0
BODY = b"x" * 128
JAVA_SOURCE = Path(__file__).with_name("SendsInTurn.java")
JAVA_JVM = ("-Xms128m", "-Xmx128m", "-XX:-OmitStackTraceInFastThrow")
STOP_SECONDS_MAX = 10.0


class Ended(NamedTuple):
    """A send that has ended."""

    at: float
    """Seconds since 1970: the clock that all processes of the machine share."""
    is_acknowledged: bool
    words: str
    """Why it failed."""


class Client:
    """One client of one topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ended: list[Ended] = []

    def ended(self) -> list[Ended]:
        """Return what has ended so far."""
        return list(self._ended)


def silence(ended: list[Ended], since: float, until: float) -> float:
    """Return the longest time without an acknowledgement that touches this span, in seconds."""
    acknowledged = [one.at for one in ended if one.is_acknowledged]
    inside = [at for at in acknowledged if since <= at <= until]
    before = max((at for at in acknowledged if at < since), default=since)
    return max((later - at for at, later in itertools.pairwise([before, *inside, until])), default=0.0)


def failed(ended: list[Ended], since: float, until: float) -> list[Ended]:
    """Return the sends that failed within this span."""
    return [one for one in ended if since <= one.at <= until and not one.is_acknowledged]


@contextlib.contextmanager
def in_thread(client: HttpClient | SdkClient) -> Generator[Client]:
    """Run a client until the block ends."""
    thread = threading.Thread(target=client.work)
    thread.start()
    try:
        yield client
    finally:
        client.stop.set()
        thread.join()


class HttpClient(Client):
    """Single sends over one HTTP connection, without idempotency keys."""

    def __init__(self, http: str, topic: str) -> None:
        super().__init__("HTTP")
        self._place, self._path = urlsplit(http), f"/v1/topics/{topic}/messages"
        self.stop = threading.Event()

    def work(self) -> None:
        connection = http.client.HTTPConnection(
            self._place.hostname or "", self._place.port, timeout=SEND_SECONDS_MAX
        )
        request = json.dumps({"messages": [{"body": BODY.decode()}]})
        headers = {"content-type": "application/json"}
        while not self.stop.wait(PAUSE_SECONDS):
            try:
                connection.request("POST", self._path, request, headers)
                answer = connection.getresponse()
                content = answer.read()
                words = "" if answer.status == 200 else f"{answer.status} {content[:80].decode()}"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                words = type(error).__name__
            self._ended.append(Ended(time.time(), not words, words))
        connection.close()


class SdkClient(Client):
    """Single sends with the SDK's producer."""

    def __init__(self, nameserver: str, topic: str) -> None:
        super().__init__("SDK")
        self._nameserver, self._topic = nameserver, topic
        self.stop = threading.Event()

    def work(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        async with Producer(
            "takeover", nameservers=self._nameserver, send_timeout=SEND_SECONDS_MAX
        ) as producer:
            while not self.stop.is_set():
                words = ""
                try:
                    await producer.send(Message(self._topic, BODY))
                except GantryError as error:
                    words = type(error).__name__
                self._ended.append(Ended(time.time(), not words, words))
                await asyncio.sleep(PAUSE_SECONDS)


class JavaClient(Client):
    """Single sends with RocketMQ's client, which reads its routes again every so many milliseconds; 0: every 30 s."""

    def __init__(self, java: Java, nameserver: str, topic: str, poll_ms: int) -> None:
        super().__init__(f"Java, poll of {poll_ms / 1000:g} s" if poll_ms else "Java, poll of 30 s")
        self._java, self._log = java, f"sends-{poll_ms}"
        self._words = (str(JAVA_SOURCE), nameserver, topic, str(poll_ms), str(int(PAUSE_SECONDS * 1000)))

    @contextlib.contextmanager
    def running(self) -> Generator[Client]:
        """Run the program until the block ends."""
        process = self._java.start(self._log, JAVA_JVM, *self._words)
        try:
            yield self
        finally:
            end_process(process, STOP_SECONDS_MAX)

    def ended(self) -> list[Ended]:
        found: list[Ended] = []
        for line in self._java.log(self._log).read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) == 4 and words[0].isdecimal() and words[1] in {"ok", "failed"}:
                is_acknowledged = words[1] == "ok"
                found.append(
                    Ended(int(words[0]) / 1000, is_acknowledged, "" if is_acknowledged else words[2])
                )
        return found
