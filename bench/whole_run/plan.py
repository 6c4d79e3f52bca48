"""The programs of a whole run in their order, with their options and approximate durations. Runs nothing."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """A program, its options, and its approximate seconds on two cores; the same for a quick run."""

    program: str
    words: str
    seconds: int
    quick_words: str
    quick_seconds: int
    lock: str = ""
    """The additional requirements that must be installed for it."""


SPARK = "requirements-spark.lock"
SYSTEMS = ("rocketmq", "nats", "redis", "rabbitmq")
"""The other systems of `against`."""
PLAN = (
    Step("floors", "", 10, "--seconds 1 --megabytes 64", 3),
    Step("echo", "", 12, "--seconds 1", 6),
    Step("store_send", "", 30, "--seconds 2", 12),
    Step("tls_send", "", 60, "--seconds 1 --rounds 2", 15),
    Step("store_pull", "", 30, "--seconds 2 --messages 20000", 12),
    Step("windows", "", 120, "--seconds 1 --window 32 --body 128 65536", 25),
    Step("http_send", "--seconds 15", 90, "--seconds 2", 35),
    Step("http_token", "", 20, "--turns 40 --users 50", 10),
    Step("receive_ack", "", 45, "--messages 20000 --in-flight 5000", 20),
    Step("latency", "", 45, "--seconds 5", 25),
    Step("transactions", "", 60, "--seconds 2", 25),
    Step("filters", "", 40, "--seconds 1 --messages 40000", 15),
    Step("idle", "", 40, "--seconds 3", 20),
    Step("growth", "", 180, "--seconds 3", 150),
    Step("growth_clients", "", 80, "--seconds 1 --groups 500 --connections 200", 15),
    Step("growth_log", "", 70, "--seconds 1 --gigabytes 0.1", 15),
    Step("scaling", "", 90, "--seconds 2 --most 2", 40),
    Step("recovery", "", 90, "--megabytes 50", 20),
    Step("delay", "", 900, "--seconds 5 --burst 5000 --pending 20000", 120),
    Step("sdk", "", 150, "--seconds 1 --flush sync --only producer", 15),
    Step("hot_send", "", 20, "--count 3200", 10),
    Step("hot_settle", "", 40, "--count 3200", 15),
    Step("access_decisions", "", 40, "--users 200 --policies 2000 --count 2000", 10),
    Step("access_door", "", 20, "--users 100 --count 1000", 10),
    Step("hot_http", "", 40, "--turns 8", 15),
    Step("hot_grpc", "", 20, "--seconds 0.5", 8),
    Step("virtual_time", "", 25, "--seconds 20 --lives 3", 5),
    Step("spark_decode", "", 120, "--megabytes 64 --rounds 1 --bodies 80", 20, SPARK),
    Step("spark_query", "", 120, "--megabytes 20 --rounds 1", 60, SPARK),
    Step("spark_export", "", 150, "--megabytes 20 --rounds 1", 60, SPARK),
    Step("spark_report", "", 150, "--megabytes 20 --runs 1", 60, SPARK),
    Step("against", "", 420, "--seconds 1 --fill 5000 --flush sync", 90),
)
"""Floors first; programs that load the disk for long after those that are sensitive to it; other brokers last."""
REPLICATION = (
    Step("replicated_idle", "--seconds 10", 30, "--seconds 1", 15),
    Step("replicated_latency", "--seconds 8", 60, "--seconds 3 --replicas 3", 20),
    Step("replicated_send", "--seconds 4 --turns 1", 60, "--seconds 1 --turns 1 --replicas 1 2", 20),
    Step("replicated_java", "", 270, "--seconds 15 --body 128 --replicas 2", 70),
    Step("replicated_nats", "--seconds 4 --turns 1", 35, "--seconds 1 --turns 1", 25),
    Step("takeover", "--turns 1", 150, "--turns 1 --only kill move", 50),
    Step("replica_copying", "", 110, "--megabytes 20 --body 16384", 30),
)
"""The programs of `--replication`. Those without much load come first."""
WITH_JARS = ("against", "replicated_java", "takeover")
"""Programs that take RocketMQ's jars."""
BY_REPLICATION = "--replication runs it"
BY_NAME_ONLY = {
    "rocketmq": "its trials run with `against`",
    "rocketmq_secure": "it needs RocketMQ's jars",
    "grpc_java": "it needs RocketMQ's jars and its Java 5 client",
    "endurance": "it takes 90 minutes and more",
    **{step.program: BY_REPLICATION for step in REPLICATION},
}
"""Programs that a whole run leaves out, and the reason."""


def in_words(seconds: float) -> str:
    """Return a duration in readable form."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{round(seconds / 60)} minutes"
