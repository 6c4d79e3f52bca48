"""Two real stores lead one broker name in turn, under sends over HTTP and by the SDK: the old leader is killed, or paused with its connections open."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantry_link.clients.store_admin import StoreAdminCalls

from .replica_group import Replica, new_replica

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.timeout(300)]
GROUP, TOPIC = "group-of-two", "leader-changes"
AWAY_SECONDS = 0.5
"""Time without a leader: far below the time that sends wait for one."""
SOON_SECONDS = 2.0
"""The longest time from the registration to the next acknowledged send; a time-out of a send or of a store takes 3 to 5 s."""
SOME = 5


@dataclass
class Traffic:
    """Sends one message after another until it is stopped, and notes each outcome with its time."""

    send: Callable[[int], Any]
    outcomes: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    is_stopped: bool = False

    async def run(self) -> None:
        """Send until stopped."""
        number = 0
        while not self.is_stopped:
            number += 1
            outcome = await self.send(number)
            self.outcomes.append((time.monotonic(), outcome))
            await asyncio.sleep(0.002)

    def acknowledged(self, since: float = 0.0) -> list[float]:
        """Return when sends were acknowledged."""
        return [when for when, outcome in self.outcomes if outcome == "ok" and when > since]

    def failures(self) -> set[str]:
        """Return the outcomes of failed sends."""
        return {outcome for _when, outcome in self.outcomes} - {"ok"}


def over_http(url: str, topic: str, *, keyed: bool) -> Callable[[int], Any]:
    """Return a sender of messages over HTTP."""

    def post(number: int) -> str:
        message = {"body": str(number)} | ({"idempotencyKey": f"{keyed}-{number}"} if keyed else {})
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        try:
            body = json.dumps({"messages": [message]})
            connection.request(
                "POST", f"/v1/topics/{topic}/messages", body, {"content-type": "application/json"}
            )
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return "ok" if "results" in answer else str(answer["code"])

    return lambda number: asyncio.to_thread(post, number)


def by_sdk(producer: gantrymq.Producer, topic: str) -> Callable[[int], Any]:
    """Return a sender of messages by the SDK."""

    async def send(number: int) -> str:
        try:
            await producer.send(gantrymq.Message(topic, b"%d" % number))
        except gantrymq.GantryError as error:
            return repr(error)
        return "ok"

    return send


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(120):
        while not is_true():
            await asyncio.sleep(0.01)


async def end(replica: Replica, how: str) -> None:
    """Let a leader stop answering."""
    if how == "killed":
        replica.store.kill()
        await replica.pool.close()  # its connections end with it
    else:
        replica.pause()


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_sends_continue_at_once_when_another_replica_leads(
    how: str, new_system: Callable[..., dict[str, Any]], tmp_path: Path, fair_clock: Callable[[], float]
) -> None:
    system = new_system()  # its own: a gateway expects brokers that it has seen, and this one stays away
    group, topic = f"{GROUP}-{how}", f"{TOPIC}-{how}"
    old, new = (new_replica(tmp_path, group, name, system["nameserver"]) for name in ("a", "b"))
    try:
        for replica, number in ((old, 0), (new, 1)):
            await replica.create_topic(topic)
            await replica.register(group, number, 1)
        topics = (await StoreAdminCalls(new.pool, new.address).topics()).topic_config_table
        async with gantrymq.Producer("p", nameservers=system["nameserver"], send_timeout=30.0) as producer:
            plain = Traffic(over_http(system["http"], topic, keyed=False))
            keyed = Traffic(over_http(system["http"], topic, keyed=True))
            sdk = Traffic(by_sdk(producer, topic))
            senders = [plain, keyed, sdk]
            running = [asyncio.ensure_future(one.run()) for one in senders]
            await until(lambda: all(len(one.acknowledged()) > SOME for one in senders))
            await end(old, how)
            await asyncio.sleep(AWAY_SECONDS)
            led_at, led_at_fair = time.monotonic(), fair_clock()
            await new.register_topics(group, 0, 2, topics)
            await until(lambda: all(one.acknowledged(led_at) for one in senders))
            took = fair_clock() - led_at_fair
            await until(lambda: all(len(one.acknowledged(led_at)) > SOME for one in senders))
            for one in senders:
                one.is_stopped = True
            await asyncio.gather(*running)
        assert took < SOON_SECONDS
        assert keyed.failures() == set(), "a keyed send is repeated at the next leader"
        assert sdk.failures() == set()
        assert plain.failures() <= {"UNKNOWN_WHETHER_STORED"}, (
            "only what the old leader received has no result"
        )
        assert sum(outcome != "ok" for _when, outcome in plain.outcomes) <= 1
    finally:
        await old.end()
        await new.end()
