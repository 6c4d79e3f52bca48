"""RocketMQ's own benchmark programs against Gantry and against RocketMQ's own broker, in one run, as ratios.

    python bench/peers/rocketmq.py --jars DIR[:DIR...] [--seconds 20] [--threads 32] [--only NAME...]

DIR contains RocketMQ's published jars (or compiled classes): broker, nameserver, client and example, with their dependencies.
bench/README.md says how to get them. Both brokers keep their data in a temporary folder and listen on free ports.
"""

from __future__ import annotations

import argparse

from measuring.system import end_in_order, provenance
from peers.rocketmq_run import TRIALS, compare


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jars", required=True, help="folders of RocketMQ's jars or classes, separated by ':'"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--only", nargs="*", default=[], help="trials whose name contains one of these")
    options = parser.parse_args()
    chosen = [
        trial for trial in TRIALS if not options.only or any(word in trial.name for word in options.only)
    ]
    print(f"rocketmq; {provenance('as each line says')}")
    end_in_order()
    compare(options.jars, chosen, options)


if __name__ == "__main__":
    main()
