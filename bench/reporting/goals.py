"""The goals of all measurements in one table, and how a measurement is judged by its goal. Measures nothing."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """A measured value, with the reference measured in the same run and unit."""

    key: str
    value: float
    unit: str
    floor: float | None = None
    beside: str = ""
    words: str = ""

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the floor; None without a floor."""
        return self.value / self.floor if self.floor else None


class Goal(NamedTuple):
    """The goal is `limit` + `floors` x floor. `miss`: the profile of docs/performance.md that explains a miss."""

    question: str
    sense: Literal["≥", "≤"]
    limit: float = 0.0
    floors: float = 0.0
    miss: str = ""

    def bound(self, floor: float | None) -> float | None:
        """Return the value to reach; None if it depends on a floor that was not measured."""
        if self.floors and floor is None:
            return None
        return self.limit + self.floors * (floor or 0.0)

    def words(self, unit: str) -> str:
        """Return the goal as text."""
        parts = [f"{self.floors:g} x the floor"] if self.floors else []
        parts += [amount(self.limit, unit)] if self.limit or not self.floors else []
        return f"{self.sense} {' + '.join(parts)}"


def least(question: str, limit: float = 0.0, *, floors: float = 0.0, miss: str = "") -> Goal:
    return Goal(question, "≥", limit, floors, miss)


def most(question: str, limit: float = 0.0, *, floors: float = 0.0, miss: str = "") -> Goal:
    return Goal(question, "≤", limit, floors, miss)


GOALS: dict[str, Goal] = {
    "rocketmq.producer, async flush": least(
        "RocketMQ's Producer, 128 B, 32 threads, async flush", floors=2.5
    ),
    "rocketmq.producer, async flush, a CPU second": least(
        "the same, messages per CPU second of the broker", floors=2.5
    ),
    "rocketmq.producer, sync flush": least("the same Producer, SYNC_FLUSH", floors=2.0, miss="a"),
    "rocketmq.batch producer": least("its BatchProducer, 32 x 128 B, 8 threads", floors=1.2, miss="b"),
    "rocketmq.consumer": least("its push consumer", floors=1.0),
    "rocketmq_secure.signed, unsigned": least(
        "signed sends of RocketMQ's Producer, relative to unsigned ones", floors=0.85, miss="h"
    ),
    "rocketmq_secure.signed, RocketMQ": least(
        "the same, relative to RocketMQ 5.5.0 with authentication and authorization", floors=2.0, miss="h"
    ),
    "rocketmq_secure.TLS, plain": least(
        "sends of RocketMQ's Producer over TLS, relative to plain ones", floors=0.7
    ),
    "rocketmq_secure.TLS, RocketMQ": least("the same, relative to RocketMQ over TLS", floors=1.0),
    "store_send.async.w256.c8.128B": least("sends at window 256 over 8 connections, async flush", 55_000),
    "store_send.sync.w256.c8.128B": least("the same, sync flush, relative to async", floors=0.6, miss="a"),
    "tls_send.tls": least("sends over TLS at window 256, relative to plain ones", floors=0.7),
    "store_pull.32 x 128 B": least("pull of old messages, 32 x 128 B", 400_000),
    "http_send.single": least("HTTP single send, 32 connections", floors=2.0),
    "http_send.keyed": least("keyed HTTP send, relative to a plain one", floors=0.85),
    "http_send.batch": least("HTTP batches of 100", 120_000, miss="c"),
    "latency.remoting.p50": most("produce → held pull at 1,000/s over remoting, p50", 0.8),
    "latency.remoting.p99": most("the same, p99", 4),
    "latency.HTTP.p50": most("produce → held pull at 1,000/s over HTTP, p50", 2),
    "latency.HTTP.p99": most("the same, p99", 8),
    "recovery.ready": most("ready after kill -9 with a log of 1 GB", 1.5, floors=2.0, miss="d"),
    "recovery.rebuild": most("full rebuild of queues and index, a GB", 15, miss="d"),
    "idle.ready": most("a warm `up`", 2.5),
    "idle.memory": most("memory of an idle system (PSS)", 240),
    "idle.cpu": most("CPU of an idle system", 2),
    "growth.sends, 10,000 queues": least("sends to 10,000 queues, relative to 10", floors=0.8),
    "growth.pulls, 10 of 10,000 queues": least("pulls of 10 queues next to 10,000", floors=0.8),
    "growth.pulls, 10,000 queues": least(
        "pulls over all of 10,000 queues, relative to 10", floors=0.8, miss="e"
    ),
    "growth.turn": most("longest turn of a checkpoint with 10,000 queues", 50),
    "growth.sends, 10,000 held": least("sends with 10,000 held pulls, relative to 10", floors=0.8),
    "growth.pulls, 10,000 held": least("pulls with 10,000 held pulls, relative to 10", floors=0.8),
    "delay.remoting.p50": most("delay lateness, 1,000 due/s, sent over remoting, p50", 3, miss="f"),
    "delay.remoting.p99": most("the same, p99", 10, miss="f"),
    "delay.remoting.p99.9": most("the same, p99.9", 50, miss="f"),
    "delay.remoting.early": most("the same, delivered early", 0),
    "delay.HTTP.p50": most("delay lateness, 1,000 due/s, sent over HTTP, p50", 3, miss="f"),
    "delay.HTTP.p99": most("the same, p99", 10, miss="f"),
    "delay.HTTP.p99.9": most("the same, p99.9", 50, miss="f"),
    "delay.HTTP.early": most("the same, delivered early", 0),
    "delay.burst": most("100,000 due in one instant: the last delivered after", 10),
    "delay.burst.sends": least("other sends meanwhile, relative to before", floors=0.5),
    "delay.burst.pulls": least("other pulls meanwhile, relative to before", floors=0.5),
    "delay.pending.memory": most("1,000,000 pending: memory of the scheduler", 250),
    "delay.pending.memory, rebuilt": most("the same, after the rebuild: memory of the scheduler", 250),
    "delay.pending.takeover": most("1,000,000 pending: index taken over after kill -9", 10),
    "delay.pending.rebuild": most("1,000,000 pending: index rebuilt after kill -9", 30),
    "delay.pending.due": most("5,000 due/s for 20 s in addition: the last one late by", 1),
    "delay.pending.cancel.p99": most("cancel during them, p99", 5),
    "delay.pending.cancel, rebuilt.p99": most("the same, after the rebuild", 5),
    "access_decisions.literal": most("decision of access control, 10,000 users, 100,000 policies", 5),
    "access_decisions.memory": most("the same, memory", 100),
    "transactions.async": least("transactions relative to plain sends, async flush", floors=0.35, miss="g"),
    "transactions.sync": least("the same, sync flush", floors=0.35, miss="g"),
    "transactions.sync.p50": most("commit → consumer, sync flush, p50", 1.5),
    "transactions.sync.p99": most("the same, p99", 6),
    "filters.evaluations": least("SQL92, three conditions, evaluations", 300_000),
    "filters.scan": least("pull with a filter that drops 99 %, examined", 150_000),
    "http_token.send": least("HTTP sends with a token relative to without, CPU of the gateway", floors=0.9),
    "receive_ack.rate": least("receive + ack over HTTP, batches of 32", 25_000),
    "receive_ack.in flight": most("100,000 messages in flight, in the store", 100),
    "sdk.sync.send, 32 in flight": least("Python SDK, sends of 128 B, 32 in flight, sync flush", 15_000),
    "sdk.sync.send, 256 in flight": least("the same, 256 in flight", 25_000),
    "sdk.async.send, 32 in flight": least("Python SDK, sends of 128 B, 32 in flight, async flush", 25_000),
    "sdk.async.send, 256 in flight": least("the same, 256 in flight", 35_000),
    "sdk.sync.send, gathered": least("Python SDK, sends batched for 2 ms, sync flush", 80_000),
    "sdk.async.send, gathered": least("the same, async flush", 80_000),
    "sdk.sync.consume, one a call": least("SDK push consumer, one message a call", 60_000),
    "sdk.sync.consume, batches of 32": least("SDK push consumer, batches of 32", 120_000),
    "sdk.sync.deliver.p50": most("produce → listener at 1,000/s, sync flush, p50", 1),
    "sdk.sync.deliver.p99": most("the same, p99", 5),
    "sdk.sync.rebalance, killed": most("a member is killed: its queues are consumed again after", 2_000),
    "sdk.sync.rebalance, left": most("a member leaves: its queues are consumed again after", 300),
    "sdk.async.cpp send, 1 in flight": least(
        "SDK relative to the C++ based client, 1 in flight, async", floors=1.0
    ),
    "sdk.async.cpp send, 32 in flight": least("the same, 32 in flight", floors=1.0),
    "sdk.async.cpp consume": least("SDK push consumer relative to the C++ based client's", floors=1.0),
    "spark_decode.header": least(
        "log decoder, header and 12 columns, relative to a read with CRC", floors=0.55
    ),
    "spark_decode.topic": least("the same, topic and 4 columns", floors=0.45),
    "spark_decode.full": least("the same, all columns, raw properties", floors=0.30),
    "spark_decode.map": least("the same, properties as a MAP", floors=0.18),
    "spark_decode.loop": least("the same, all columns, relative to a struct loop", floors=20),
    "spark_export.full": most("full export to Parquet, relative to one thread of pyarrow", floors=2.5),
    "spark_query.Parquet": most("traffic query over the log, relative to Spark on Parquet", floors=2),
    "spark_query.DuckDB": most("the same, relative to DuckDB over our decoder", floors=2),
    "spark_report.worker": most("memory of a Python worker of a report", 250),
    "spark_report.first words": most("cold report of 500 MB: first output", 2),
    "spark_report.first table": most("the same, first table (by the queues)", 15),
    "spark_report.first count": most("the same, first table counted in the log", 15),
    "spark_report.all": most("the same, all of it", 40),
    "virtual_time.idle": least("simulation: seven idle processes", 200.0),
    "hot_grpc.changing": most("gRPC: CPU of HTTP/2 and gRPC for a unary call, headers spelled out", 40),
    "grpc_java.sync 32": least(
        "RocketMQ's Java 5 client over gRPC, 32 waiting threads, relative to RocketMQ's proxy", floors=1.25
    ),
    "grpc_java.sync 32, CPU a message": most("the same, CPU of the servers a message", floors=0.6),
    "grpc_java.sync 32, p99": most("the same, p99", floors=1.0),
    "grpc_java.async 64": least("the same, 64 in flight, relative to RocketMQ's proxy", floors=1.25),
    "grpc_java.async 64, CPU a message": most("the same, CPU of the servers a message", floors=0.6),
    "grpc_java.async 64, p99": most("the same, p99", floors=1.0),
    "grpc_java.async 256": least("the same, 256 in flight, relative to RocketMQ's proxy", floors=1.25),
    "grpc_java.async 256, CPU a message": most("the same, CPU of the servers a message", floors=0.6),
    "grpc_java.async 256, p99": most("the same, p99", floors=1.0),
    "grpc_java.paced 500, p99": most("gRPC sends at 500/s, p99", 5),
    "grpc_java.consume 8": least(
        "simple consumers over gRPC, receive and acknowledge, relative to RocketMQ's proxy", floors=1.0
    ),
    "grpc_java.consume 8, CPU a message": most("the same, CPU of the servers a message", floors=0.7),
    "replicated_java.1 follower, 128 B": least(
        "RocketMQ's Producer, 128 B, sync flush, one follower relative to a single store", floors=0.75
    ),
    "replicated_java.2 followers, 128 B": least("the same, two followers", floors=0.65),
    "replicated_java.1 follower, 1024 B": least("the same, 1 KiB, one follower", floors=0.75),
    "replicated_java.2 followers, 1024 B": least("the same, 1 KiB, two followers", floors=0.65),
    "replicated_java.1 follower, RocketMQ, 128 B": least(
        "one follower, relative to RocketMQ's master with a slave in sync, 128 B", floors=2.5
    ),
    "replicated_java.1 follower, RocketMQ, 1024 B": least("the same, 1 KiB", floors=2.5),
    "replicated_nats.32 in flight": least(
        "three replicas relative to JetStream R3, synced, from Python, 32 in flight", floors=3.0
    ),
    "replicated_nats.256 in flight": least("the same, 256 in flight", floors=3.0),
    "replicated_latency.3.acknowledged.p99": most("three replicas, 1,000/s: send → acknowledgement, p99", 5),
    "replicated_latency.3.held pull.p99": most("the same, produce → held pull, p99", 5),
    "takeover.move.HTTP": most("the lead is moved: HTTP sends silent for", 0.3),
    "takeover.move.SDK": most("the same, sends of the SDK", 0.3),
    "replica_copying.1024 B": least("a new replica copies a log of 1 KiB bodies", 200),
    "replica_copying.16384 B": least("the same, bodies of 16 KiB", 200),
    "replicated_idle.memory": most("memory of an idle system with three replicas (PSS)", 500),
}
"""By the key of the measurement. The program defines the floor."""

FLOORS = {
    "store_send.async.w256.c8.128B": "echo.calls, typed",
    "store_pull.32 x 128 B": "echo.bare",
    "store_send.sync.w32.c32.128B": "floors.fdatasync",
}
"""Measurements whose floor another program measures in a whole run: the key of that floor."""


def goal_of(key: str) -> Goal | None:
    return GOALS.get(key)


def is_met(found: Figure) -> bool | None:
    """Whether a measurement reaches its goal; None if it has none, or if its floor was not measured."""
    goal = GOALS.get(found.key)
    bound = goal.bound(found.floor) if goal else None
    if goal is None or bound is None:
        return None
    return found.value >= bound if goal.sense == "≥" else found.value <= bound


def amount(value: float, unit: str) -> str:
    """Return a value with its unit, in as many digits as are meaningful."""
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.0f}" if float(value).is_integer() or size >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def verdict(found: Figure) -> str:
    """Return `met`, `missed` with the profile that explains it, or nothing."""
    met, goal = is_met(found), GOALS.get(found.key)
    if met is None or goal is None:
        return ""
    return "met" if met else f"missed, ({goal.miss})" if goal.miss else "missed"


def line_of(found: Figure) -> str:
    """Return the line of a measurement."""
    goal = GOALS.get(found.key)
    line = f"{found.key:<42} {amount(found.value, found.unit):>18}"
    if found.floor is not None and found.ratio is not None:
        beside = f" ({found.beside})" if found.beside else ""
        line += f"   {found.ratio:.2f} x {amount(found.floor, found.unit)}{beside}"
    if goal:
        line += f"   goal {goal.words(found.unit)}: {verdict(found) or 'its floor was not measured'}"
    return line + (f"   {found.words}" if found.words else "")
