"""Latency of a broker with replicas at a fixed rate, compared with a single store in the same run.

    python bench/replication/replicated_latency.py [--replicas 1 3] [--rate 1000] [--seconds 10]

An open loop, as in latency.py: from the intended instant of a send to its acknowledgement, and to its arrival at a pull that was held. Sync flush.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import uvloop

from gantry_link.connections.connection import connect
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import SendHeaderV2
from measuring.system import System, percentile, provenance
from replication.group import group
from reporting.figures import figure
from system_speed.latency import BODY_BYTES, pace, remoting

TOPIC = "latency-acks"
WARM_SECONDS = 2.0
SHARES = (0.5, 0.99, 0.999)


async def acknowledged(system: System, rate: float, seconds: float) -> list[float]:
    """Return the seconds from the intended instant of each send to its acknowledgement, without the warm-up."""
    producer = await connect(system.store)
    taken: list[float] = []
    refused: list[str] = []
    sending: set[asyncio.Future[Command]] = set()

    def send(number: int, intended: float) -> None:
        header = SendHeaderV2(
            producer_group="bench", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=number % 4, sys_flag=0,
            born_timestamp=int(time.time() * 1000), flag=0, properties=f"UNIQ_KEY\x01{number:032d}\x02",
        )  # fmt: skip
        answer = producer.request(RequestCode.SEND_MESSAGE_V2, header, b"." * BODY_BYTES)

        def answered(done: asyncio.Future[Command]) -> None:
            sending.discard(done)
            if done.exception() or done.result().code:
                refused.append(str(done.exception() or done.result().remark))
            taken.append(time.perf_counter() - intended)

        sending.add(answer)
        answer.add_done_callback(answered)

    await pace(rate, seconds, send)
    if sending:
        await asyncio.wait(sending)
    producer.close()
    assert not refused, refused[:3]
    return taken[int(rate * WARM_SECONDS) :]


async def both(system: System, rate: float, seconds: float) -> dict[str, list[float]]:
    return {
        "acknowledged": sorted(await acknowledged(system, rate, seconds)),
        "held pull": sorted(await remoting(system, rate, seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rate", type=float, default=1000.0, help="messages per second")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(f"replicated_latency at {options.rate:g} msg/s; {provenance('sync')}")
    floors: dict[tuple[str, float], float] = {}
    for count in options.replicas:
        with group(count) as (system, _):
            found = uvloop.run(both(system, options.rate, options.seconds))
        for way, ordered in found.items():
            for share in SHARES:
                value = percentile(ordered, share) * 1000
                floor = floors.get((way, share))
                figure(
                    f"replicated_latency.{count}.{way}.p{share * 100:g}", value, "ms", floor=floor,
                    beside="single store" if floor else "",
                )  # fmt: skip
                if count == 1:
                    floors[way, share] = value


if __name__ == "__main__":
    main()
