"""Throughput by number of processes: acknowledged sends over 1 to N stores, HTTP sends through 1 to N gateway workers.

    python bench/system_speed/scaling.py [--seconds 4] [--most N] [--flush sync|async] [--load-processes N] [--only stores|gateways]

N is by default the number of cores. The load comes from separate processes, one per store, or as many as gateway workers. If they
share the cores with the system, the sum cannot grow once all cores are busy: each line says how many were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from http_speed.receive_ack import post
from measuring.system import System, cpu_seconds, descendants, provenance, started
from reporting.figures import figure
from store_speed.flood import Sends, flood

TOPIC = "scaling"
QUEUES = 8
BODY = "x" * 128
CONNECTIONS, WINDOW = 8, 256
WARM_SECONDS = 1.0
HTTP_LOAD = Path(__file__).resolve().parents[1] / "http_speed" / "http_load.py"


def busy_seconds() -> float:
    """Return the CPU seconds of all processes of the machine so far."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    idle = int(fields[4]) + int(fields[5])
    return (sum(map(int, fields[1:9])) - idle) / os.sysconf("SC_CLK_TCK")


def together(commands: list[list[str]], body: bytes = b"") -> list[dict[str, Any]]:
    """Run programs at the same time; return the JSON line of each."""
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for command in commands
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(body)
        process.stdin.close()
    found: list[dict[str, Any]] = []
    for process in processes:
        assert process.stdout is not None
        text = process.stdout.read()
        if process.wait():
            sys.exit("a load process failed: its lines above say why")
        found.append(json.loads(text))
    return found


def send_to(store: str, seconds: float) -> None:
    """Run the load process of a store."""
    sends = Sends(TOPIC, range(QUEUES), BODY.encode())
    shape = {"connections": CONNECTIONS, "window": WINDOW}

    async def load() -> float:
        await flood(store, sends, seconds=WARM_SECONDS, **shape)
        return await flood(store, sends, seconds=seconds, **shape)

    print(json.dumps({"per_second": uvloop.run(load())}))


def stores(count: int, options: argparse.Namespace) -> tuple[float, str]:
    """Return sends a second over this number of stores, and their CPU usage."""
    with started("--flush", options.flush, "--brokers", str(count)) as system:
        _make_topic(system)
        addresses = [broker["address"] for broker in system.raw["brokers"]]
        commands = [
            [sys.executable, __file__, "--store", address, "--seconds", str(options.seconds)]
            for address in addresses
        ]
        return _measured(commands, [broker["pid"] for broker in system.raw["brokers"]])


def gateways(count: int, options: argparse.Namespace) -> tuple[float, str]:
    """Return HTTP sends a second through this number of gateway workers, and their CPU usage."""
    with started("--flush", options.flush, "--gateway-workers", str(count)) as system:
        _make_topic(system)
        url = f"{system.http}/v1/topics/{TOPIC}/messages"
        body = json.dumps({"messages": [{"body": BODY}]}).encode()
        processes = options.load_processes or count
        command = [
            sys.executable, str(HTTP_LOAD), url, "--seconds", str(options.seconds),
            "--connections", str(max(64 // processes, 1)),
        ]  # fmt: skip
        return _measured([command] * processes, system.raw["pids"]["gateway"], body)


def _measured(commands: list[list[str]], pids: list[int], body: bytes = b"") -> tuple[float, str]:
    pids = descendants(pids)
    cpu, busy, began = sum(map(cpu_seconds, pids)), busy_seconds(), time.perf_counter()
    found = together(commands, body)
    took = time.perf_counter() - began
    share, all_busy = (sum(map(cpu_seconds, pids)) - cpu) / took, (busy_seconds() - busy) / took
    words = f"{share:.2f} cores of these, {all_busy:.2f} of {os.cpu_count()} busy"
    return sum(one["per_second"] for one in found), words


def _make_topic(system: System) -> None:
    post(f"{system.http}/v1/topics/{TOPIC}", {"readQueues": QUEUES, "writeQueues": QUEUES}, "PUT")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--most", type=int, default=os.cpu_count() or 1, help="stores, and gateway workers")
    parser.add_argument("--flush", default="sync", choices=["sync", "async"])
    parser.add_argument("--load-processes", type=int, default=0, help="of the HTTP load")
    parser.add_argument("--only", choices=["stores", "gateways"])
    parser.add_argument("--store", help="send to this address and print the rate as JSON")
    options = parser.parse_args()
    if options.store:
        send_to(options.store, options.seconds)
        return
    print(f"scaling; {provenance(options.flush)}")
    for name, measure in (("stores", stores), ("gateways", gateways)):
        first: float | None = None
        for count in range(1, options.most + 1) if options.only in {None, name} else ():
            rate, words = measure(count, options)
            figure(f"scaling.sends, {name}: {count}", rate, "msg/s", floor=first, beside="1", words=words)
            first = first or rate


if __name__ == "__main__":
    main()
