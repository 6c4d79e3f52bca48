"""The time of a warm `up`, and the cost of an idle system: memory (PSS) and CPU of all its processes.

python bench/system_speed/idle.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import time

from measuring.system import cpu_seconds, pids_of, provenance, pss_bytes, started
from reporting.figures import figure

SETTLE_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with started():  # installs and warms the page cache; the second start counts
        pass
    with started() as system:
        print(f"idle; {provenance('sync')}")
        pids = pids_of(system)
        time.sleep(SETTLE_SECONDS)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        began = time.monotonic()
        time.sleep(arguments.seconds)
        took = time.monotonic() - began
        total_bytes = total_share = 0.0
        for name, pid in pids.items():
            memory, share = pss_bytes(pid), (cpu_seconds(pid) - before[name]) / took
            total_bytes, total_share = total_bytes + memory, total_share + share
            print(f"{name:<14} {memory / 1e6:7.1f} MB   {share * 100:5.2f} % of a core")
        figure("idle.ready", system.raw["seconds"], "s")
        figure("idle.memory", total_bytes / 1e6, "MB")
        figure("idle.cpu", total_share * 100, "% of a core")


if __name__ == "__main__":
    main()
