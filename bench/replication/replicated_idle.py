"""Memory and CPU of an idle system with replicas: all its processes, the launcher and the NATS servers included.

python bench/replication/replicated_idle.py [--replicas 3] [--seconds 15]
"""

from __future__ import annotations

import argparse
import time

from measuring.system import cpu_seconds, descendants, provenance, pss_bytes
from replication.group import group, name_of
from reporting.figures import figure

SETTLE_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    with group(options.replicas) as (system, _):
        print(f"replicated_idle; {provenance('sync')}")
        time.sleep(SETTLE_SECONDS)
        pids = descendants(system.raw["pids"]["launcher"])
        before = {pid: cpu_seconds(pid) for pid in pids}
        began = time.monotonic()
        time.sleep(options.seconds)
        took = time.monotonic() - began
        shares = {pid: (cpu_seconds(pid) - before[pid]) / took for pid in pids}
        memory = {pid: pss_bytes(pid) for pid in pids}
        for pid in pids:
            print(f"{name_of(pid):<14} {memory[pid] / 1e6:7.1f} MB   {shares[pid] * 100:5.2f} % of a core")
        figure("replicated_idle.ready", system.raw["seconds"], "s")
        figure("replicated_idle.memory", sum(memory.values()) / 1e6, "MB", words=f"{len(pids)} processes")
        figure("replicated_idle.cpu", sum(shares.values()) * 100, "% of a core")


if __name__ == "__main__":
    main()
