"""RocketMQ's Producer signed and over TLS: against Gantry with and without access control, and against RocketMQ with both of its checks.

    python bench/peers/rocketmq_secure.py --jars DIR[:DIR...] [--seconds 15] [--threads 32] [--rounds 3] [--flush async]

The folders are those of rocketmq.py. In each round the same program runs against all sides in turn; the medians are compared. Gantry decides
about a Normal user with policies, RocketMQ about a Super user, which costs it less.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from statistics import median
from typing import Any

from measuring.system import ROOT, System, end_in_order, provenance, started
from peers.rocketmq_report import Side
from peers.rocketmq_run import TOPIC, Broker, Java, Trial, rocketmq, run_trial
from reporting.figures import figure, skipped

USER, SECRET = "bench", "bench-bench-bench"
GUARDED_ROCKETMQ = "\n".join(
    [
        "authenticationEnabled=true",
        "authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        f'initAuthenticationUser={{"username":"{USER}","password":"{SECRET}"}}',
        f'innerClientAuthenticationCredentials={{"accessKey":"{USER}","secretKey":"{SECRET}"}}',
        "authorizationEnabled=true",
        "authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
        "",
    ]
)
SIGNED = ("-a", "true", "-ak", USER, "-sk", SECRET)
OVER_TLS = ("-Dtls.enable=true",)

Run = Callable[[], Side]


@contextlib.contextmanager
def guarded(flush: str) -> Generator[System]:
    """Start a system with access control and the user `bench`, which may send to every topic."""
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        data = f"{folder}/data"
        made = json.loads(
            subprocess.check_output(
                [str(ROOT / "gantry"), "access", "init", "--json", "--data", data], text=True
            )
        )
        with started("--flush", flush, data=data) as system:
            call = _caller(system.http, made["user"], made["secret"])
            call("POST", "/v1/users", {"user": USER, "secret": SECRET})
            call(
                "PUT",
                f"/v1/policies/{USER}",
                {"custom": [{"resource": "Topic:*", "actions": ["Pub", "Sub"]}]},
            )
            yield system


def _caller(http: str, user: str, secret: str) -> Callable[[str, str, Any], None]:
    basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
    headers = {"authorization": f"Basic {basic}", "content-type": "application/json"}

    def call(method: str, path: str, body: Any) -> None:
        request = urllib.request.Request(http + path, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    return call


def certificates(folder: Path) -> list[str]:
    """Make a certificate, and return the options with which nameserver and store speak TLS beside plain connections."""
    command = [str(ROOT / "gantry"), "access", "dev-certs", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [
        word
        for service in ("nameserver", "broker-store")
        for name, file in (("cert", "server.pem"), ("key", "server.key"))
        for word in ("--set", f"{service}.tls_{name}_file={folder / file}")
    ]


def in_turns(rounds: int, runs: dict[str, Run]) -> dict[str, tuple[float, float]]:
    """Run all of them in each round; return the medians of the rates, and of the messages per CPU second of the broker."""
    found: dict[str, list[Side]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return {
        name: (median(side.result.rate for side in sides), median(side.per_cpu_second for side in sides))
        for name, sides in found.items()
    }


def report(found: dict[str, tuple[float, float]], name: str, beside: str) -> None:
    """Report a side with another one as the floor."""
    (rate, per_cpu), (floor, floor_cpu) = found[name], found[beside]
    if not (rate and floor):
        skipped(f"rocketmq_secure.{name}", "a program reported nothing")
        return
    figure(f"rocketmq_secure.{name}, {beside}", rate, "msg/s", floor=floor, beside=beside)
    figure(
        f"rocketmq_secure.{name}, {beside}, a CPU second",
        per_cpu,
        "msg/s",
        floor=floor_cpu or None,
        beside=beside,
    )


def signed(java: Java, folder: Path, options: argparse.Namespace) -> None:
    """Compare signed sends with unsigned ones, and with RocketMQ's."""
    plain_trial = Trial("unsigned", "Producer", (), options.flush)
    signed_trial = Trial("signed", "Producer", SIGNED, options.flush)
    with (
        started("--flush", options.flush) as plain,
        guarded(options.flush) as checked,
        rocketmq(java, folder, options.flush, GUARDED_ROCKETMQ) as theirs,
    ):
        runs: dict[str, Run] = {
            "unsigned": lambda: run_trial(java, _broker(plain), plain_trial, options),
            "signed": lambda: run_trial(java, _broker(checked), signed_trial, options),
            "RocketMQ": lambda: run_trial(java, theirs, signed_trial, options),
        }
        found = in_turns(options.rounds, runs)
    report(found, "signed", "unsigned")
    report(found, "signed", "RocketMQ")


def over_tls(java: Java, folder: Path, options: argparse.Namespace) -> None:
    """Compare sends over TLS with plain ones, and with RocketMQ's over TLS."""
    plain_trial = Trial("plain", "Producer", (), options.flush)
    tls_trial = Trial("TLS", "Producer", (), options.flush, jvm=OVER_TLS)
    with (
        started("--flush", options.flush, *certificates(folder / "certs")) as ours,
        rocketmq(java, folder, options.flush) as theirs,
    ):
        runs: dict[str, Run] = {
            "plain": lambda: run_trial(java, _broker(ours), plain_trial, options),
            "TLS": lambda: run_trial(java, _broker(ours), tls_trial, options),
            "RocketMQ": lambda: run_trial(java, theirs, tls_trial, options),
        }
        found = in_turns(options.rounds, runs)
    report(found, "TLS", "plain")
    report(found, "TLS", "RocketMQ")


def _broker(system: System) -> Broker:
    return Broker(system.nameserver, system.store_pid)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jars", required=True, help="folders of RocketMQ's jars or classes, separated by ':'"
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flush", choices=("async", "sync"), default="async")
    options = parser.parse_args()
    print(f"rocketmq_secure, topic {TOPIC}; {provenance(options.flush)}")
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="gantry-rocketmq-") as name:
        folder = Path(name)
        java = Java(options.jars, folder)  # its logs and users lie there
        signed(java, folder / "signed", options)
        over_tls(java, folder / "tls", options)


if __name__ == "__main__":
    main()
