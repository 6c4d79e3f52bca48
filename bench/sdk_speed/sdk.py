"""The Python SDK from one process: acknowledged sends of 128 B at 32 and 256 in flight, sync and async flush, and batched by linger.

    python bench/sdk_speed/sdk.py [--seconds 5] [--only producer|consume|deliver|rebalance|cpp] [--flush sync|async|both] [--body 128]

Starts a system for each kind of flush. Also prints the CPU time per message of this process and of the broker.
A part is a coroutine `part(system, options)` that yields one line per measurement; `PARTS` names them.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator

import uvloop

from gantrymq import Producer
from gantrymq.producer.settings import ProducerOptions
from measuring.system import System, provenance, started
from reporting.figures import figure
from sdk_speed.sdk_consumer import consume_part, deliver_part, rebalance_part
from sdk_speed.sdk_cpp import cpp_part
from sdk_speed.sdk_measures import SEND_SECONDS, TOPIC, Line, Options, Part, make_topic, measured, sends


async def producer_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Measure single sends at two windows, then with the accumulator."""
    body = bytes(options.body)
    await make_topic(system, TOPIC)
    async with Producer("sdk-bench", nameservers=system.nameserver, send_timeout=SEND_SECONDS) as producer:
        for in_flight in (32, 256):
            work = sends(producer, in_flight, body)
            yield await measured(system, f"send, {in_flight} in flight", options.seconds, work)
    gathering: ProducerOptions = {
        "nameservers": system.nameserver,
        "send_timeout": SEND_SECONDS,
        "linger": 0.002,
        "batch_bytes_max": 128 * 1024,
    }
    async with Producer("sdk-bench", **gathering) as producer:
        work = sends(producer, 2048, body)
        yield await measured(system, "send, gathered", options.seconds, work)


PARTS: dict[str, Part] = {
    "producer": producer_part,
    "consume": consume_part,
    "deliver": deliver_part,
    "rebalance": rebalance_part,
    "cpp": cpp_part,
}


async def run(system: System, options: Options, only: str | None) -> None:
    for name, part in PARTS.items():
        if only not in (None, name):
            continue
        async for line in part(system, options):
            cost = f"CPU us a message: client {line.client_us:.1f}, broker {line.broker_us:.1f}"
            key = f"sdk.{options.flush}.{line.what}"
            figure(key, line.value, line.unit, floor=line.floor, beside=line.beside, words=cost)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--flush", choices=("sync", "async", "both"), default="both")
    parser.add_argument("--only", choices=sorted(PARTS))
    chosen = parser.parse_args()
    print(provenance(chosen.flush))
    for flush in ("sync", "async") if chosen.flush == "both" else (chosen.flush,):
        with started("--flush", flush) as system:
            uvloop.run(run(system, Options(flush, chosen.seconds, chosen.body), chosen.only))


if __name__ == "__main__":
    main()
