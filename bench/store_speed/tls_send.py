"""The rate of sends over TLS compared with plain ones: one port, one store, turns of both, window 256 over 8 connections, async flush.

    python bench/store_speed/tls_send.py [--seconds 4] [--rounds 5] [--connections 8] [--window 256] [--body 128]

Starts a store with a certificate of its own. Prints the median of all turns, and the CPU time of store and client per message.
"""

from __future__ import annotations

import argparse
import ssl
import statistics
import tempfile
import time
from pathlib import Path

import uvloop

from gantrymq.cli.certificates import Authority
from measuring.system import cpu_seconds, provenance
from reporting.figures import figure
from store_speed.flood import Sends, flood
from store_speed.store_send import TOPIC, make_topic, store

QUEUES = range(8)


def write_certificate(folder: Path, authority: Authority) -> list[str]:
    """Write a server certificate; returns the settings that use it."""
    pair = authority.issue(["127.0.0.1"])
    file = folder / "server.pem"
    file.write_bytes(pair.certificate + pair.key)
    return [f"tls_cert_file={file}"]


async def measure(
    port: int, pid: int, tls: ssl.SSLContext, options: argparse.Namespace
) -> dict[str, tuple[float, str]]:
    """Send in turns; returns of both kinds the median rate and its cost."""
    await make_topic(port, len(QUEUES))
    sends = Sends(TOPIC, QUEUES, b"x" * options.body)
    ways = {"plain": None, "tls": tls}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        for name, context in ways.items():
            began, store_cpu, own_cpu = time.perf_counter(), cpu_seconds(pid), time.process_time()
            rate = await flood(
                f"127.0.0.1:{port}",
                sends,
                context,
                connections=options.connections,
                window=options.window,
                seconds=options.seconds if number else 1.0,
            )
            count = rate * (time.perf_counter() - began)
            if number:  # the first turn of each warms up
                rates[name].append(rate)
                spent = cpu_seconds(pid) - store_cpu, time.process_time() - own_cpu
                costs[name].append((spent[0] / count * 1e6, spent[1] / count * 1e6))
    return {name: (statistics.median(rates[name]), _words(rates[name], costs[name])) for name in ways}


def _words(rates: list[float], costs: list[tuple[float, float]]) -> str:
    of_store, of_client = (statistics.median(one) for one in zip(*costs, strict=True))
    return f"{min(rates):,.0f} to {max(rates):,.0f}; {of_store:.1f} µs of the store, {of_client:.1f} µs of the client each"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--body", type=int, default=128)
    options = parser.parse_args()
    print(provenance("async"))
    authority = Authority()
    tls = ssl.create_default_context(cadata=authority.certificate.decode())
    with tempfile.TemporaryDirectory(prefix="gantry-tls-") as folder:
        settings = write_certificate(Path(folder), authority)
        with store("async", f"{folder}/store", *settings) as (pid, port, _):
            found = uvloop.run(measure(port, pid, tls, options))
    plain, words = found["plain"]
    figure("tls_send.plain", plain, "msg/s", words=words)
    rate, words = found["tls"]
    figure("tls_send.tls", rate, "msg/s", floor=plain, beside="plain", words=words)


if __name__ == "__main__":
    main()
