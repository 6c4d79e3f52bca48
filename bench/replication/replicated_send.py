"""Sends to a broker with followers, compared with a single store in the same run, in turns.

    python bench/replication/replicated_send.py [--replicas 1 2 3] [--seconds 8] [--turns 2] [--followers-on DIR]

All stores, their disk and the client share one machine: each follower's fdatasync takes the time of the leader's. A network would add its round trip
to each acknowledgement, and take the followers' work off the machine. Prints messages per second at window 256 over 8 connections and of 32 waiting
senders, and the CPU time of the leader and of the followers per message.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import uvloop

from measuring.system import cpu_seconds, provenance
from replication.group import group, replicas_of
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_send import TOPIC, make_topic

BODY_BYTES = 128
QUEUES = 8
SHAPES = {"w256": {"connections": 8, "window": 256}, "w32": {"connections": 32, "window": 32}}


class Result(NamedTuple):
    """One measurement."""

    rate: float
    leader_us: float
    """CPU time per message."""
    followers_us: float


async def measure(replicas: list[dict[str, Any]], shape: dict[str, int], seconds: float) -> Result:
    """Send for a while after a short warm-up."""
    leader, *followers = replicas
    address = leader["address"]
    sends = Sends(TOPIC, range(QUEUES), b"x" * BODY_BYTES, 1)
    await make_topic(int(address.rpartition(":")[2]), QUEUES)
    await flood(address, sends, seconds=1.0, **shape)
    before = [cpu_seconds(one["pid"]) for one in replicas]
    began = time.perf_counter()
    rate = await flood(address, sends, seconds=seconds, **shape)
    messages = rate * (time.perf_counter() - began)
    used = [cpu_seconds(one["pid"]) - cpu for one, cpu in zip(replicas, before, strict=True)]
    return Result(rate, used[0] / messages * 1e6, sum(used[1:]) / messages * 1e6 if followers else 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 3], help="stores of the broker")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--followers-on", default="", metavar="DIR", help="a folder for the followers' data, as /dev/shm"
    )
    options = parser.parse_args()
    print(provenance("sync"))
    results: dict[tuple[str, int], list[Result]] = {}
    for turn in range(options.turns):
        for count in options.replicas if turn % 2 == 0 else reversed(options.replicas):
            with group(count, followers_on=options.followers_on) as (_, data):
                replicas = replicas_of(data)
                for name, shape in SHAPES.items():
                    result = uvloop.run(measure(replicas, shape, options.seconds))
                    results.setdefault((name, count), []).append(result)
    for name in SHAPES:
        floor = None
        for count in sorted(options.replicas):
            found = results[(name, count)]
            rate = sum(result.rate for result in found) / len(found)
            words = ", ".join(
                f"{result.rate:,.0f}/s, {result.leader_us:.0f} us of the leader and {result.followers_us:.0f} us of followers a message"
                for result in found
            )
            figure(
                f"replicated_send.{count}.{name}", rate, "msg/s", floor=floor,
                beside="single store" if floor else "", words=words,
            )  # fmt: skip
            floor = floor or rate


if __name__ == "__main__":
    main()
