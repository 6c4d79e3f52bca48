"""Metrics of the store. The hot path adds to plain numbers; rates, totals and Prometheus' text are computed on demand.

Metric names begin with gantry_store_. runtime_info and stats have RocketMQ's names for the same numbers.
"""

from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import NamedTuple

from broker_store.metrics.counts import GroupMetrics, KindOf, SentBack, Sums, TopicKind, TopicMetrics, Totals
from broker_store.metrics.rates import MINUTE_STEP_S, Meter, Mornings, Triple
from gantry_chassis.metrics import Histogram, Metrics

Labels = tuple[str, ...]
PUT_SECONDS = (
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    3.0,
    4.0,
    5.0,
    10.0,
)
"""Bounds of put latency: fine where sends usually are, RocketMQ's own beyond 10 ms."""
FLUSH_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
LAG_ROWS_MAX = 2000
"""Most queues shown singly: ten thousand rows would block the loop at every scrape."""
BATCH_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)


class Lag(NamedTuple):
    """Lag of a group in one queue."""

    group: str
    topic: str
    queue_id: int
    messages: int


class StoreMetrics:
    """All metrics of one store."""

    def __init__(
        self, metrics: Metrics, local_s: int, kind_of: KindOf = lambda _topic: TopicKind.USER
    ) -> None:
        self._metrics = metrics
        self._kind_of = kind_of
        self._forgotten_bytes = 0
        self.topics: dict[str, TopicMetrics] = {}
        self.groups: dict[tuple[str, str], GroupMetrics] = {}
        """By (topic, group)."""
        self._puts, self._gets = Totals(self.topics), Totals(self.groups)
        self.sent_back: dict[tuple[str, str], SentBack] = {}
        """By (topic, group)."""
        self._put_messages = metrics.counters("gantry_store_put_messages", "Messages stored.", ("topic",))
        self._put_bytes = metrics.counters("gantry_store_put_bytes", "Record bytes stored.", ("topic",))
        labels = ("topic", "group")
        self._get_messages = metrics.counters("gantry_store_get_messages", "Messages read by groups.", labels)
        self._get_bytes = metrics.counters("gantry_store_get_bytes", "Record bytes read by groups.", labels)
        self.put_latency = metrics.histogram(
            "gantry_store_put_seconds", "From the first request of a batch to its answer.", PUT_SECONDS
        )
        self.flush_time = metrics.histogram(
            "gantry_store_flush_seconds", "From the write of a batch to its flush.", FLUSH_SECONDS
        )
        self.flush_batch = metrics.histogram(
            "gantry_store_flush_messages", "Messages answered by one flush.", BATCH_COUNTS
        )
        self.put_latency_max_us = 0
        self.get_misses = 0
        self.get_found = 0
        self.cold_reads = 0
        self.damaged_records = 0
        self.put_rate, self.get_rate = Triple(), Triple()
        self.found_rate, self.miss_rate = Triple(), Triple()
        self.timer_rate = Triple()
        """Rate of timed messages delivered or recalled. `note_delays` sets this and the following."""
        self.timers_waiting = 0
        self.levels: dict[int, tuple[int, int]] = {}
        """By delay level: lowest undelivered offset of its queue, and the queue's end."""
        self.put_meter, self.get_meter = Meter(), Meter()
        self.put_mornings, self.get_mornings = Mornings(local_s), Mornings(local_s)
        self.sampled_s = 0
        """Time of the last samples, s."""
        self._show()

    def _show(self) -> None:
        metrics = self._metrics
        for name, help_text, read in (
            ("gantry_store_pulls_found", "Pulls answered with messages.", lambda: self.get_found),
            ("gantry_store_pulls_empty", "Pulls answered without a message.", lambda: self.get_misses),
            ("gantry_store_cold_reads", "Pulls that had to wait for the disk.", lambda: self.cold_reads),
            (
                "gantry_store_damaged_records",
                "Records left out of replies: damaged.",
                lambda: self.damaged_records,
            ),
        ):
            metrics.counted(name, help_text, read)
        metrics.gauge(
            "gantry_store_group_behind_bytes",
            "Log bytes a group is behind its last read.",
            self._behind,
            ("topic", "group"),
        )
        for name, help_text, read in (
            (
                "gantry_store_put_messages_today",
                "Messages of user topics stored since midnight.",
                self._puts_today,
            ),
            (
                "gantry_store_put_messages_yesterday",
                "Messages of user topics stored the day before.",
                self._puts_yesterday,
            ),
            (
                "gantry_store_get_messages_today",
                "Messages of user topics read since midnight.",
                self._gets_today,
            ),
            (
                "gantry_store_get_messages_yesterday",
                "Messages of user topics read the day before.",
                self._gets_yesterday,
            ),
        ):
            metrics.gauge(name, help_text, read)

    # --- hot path ---

    def on_put(self, topic: str, count: int, size: int) -> None:
        """Count messages stored in a topic. `size` is the size of their records."""
        counts = self.topics.get(topic) or self._add_topic(topic)
        counts.messages.value += count
        counts.bytes.value += size

    def note_delays(
        self, timers_waiting: int, timers_decided: int, levels: dict[int, tuple[int, int]]
    ) -> None:
        """Record how many timed messages wait and how many are decided, and the state of each delay level."""
        self.timers_waiting = timers_waiting
        self.timer_rate.sample(self.sampled_s, timers_decided)
        self.levels = levels

    def put_took_us(self, us: int, count: int) -> None:
        """Count `count` messages that were answered `us` after the first of them arrived."""
        self.put_latency.observe(us / 1e6, count)
        self.put_latency_max_us = max(us, self.put_latency_max_us)

    def on_flush(self, us: int, batch_count: int) -> None:
        """Count one flush that answered `batch_count` messages."""
        self.flush_time.observe(us / 1e6)
        self.flush_batch.observe(batch_count)

    def on_get(self, topic: str, group: str, count: int, size: int, behind_bytes: int | None) -> None:
        """Count messages read by a group.

        `behind_bytes` is the distance from the last of them to the log's end, None if the read does not
        advance the group.
        """
        counts = self.groups.get((topic, group)) or self._add_group(topic, group)
        counts.messages.value += count
        counts.bytes.value += size
        if behind_bytes is not None:
            counts.behind_bytes = behind_bytes
        counts.pulls += 1
        self.get_found += 1

    def on_sent_back(self, topic: str, group: str) -> None:
        """Count a message that a group sent back."""
        known = self.sent_back.get((topic, group))
        if known is None:
            known = self.sent_back[(topic, group)] = SentBack()
            self._begin(known.meter)
        known.count += 1

    # --- once a second ---

    def sample(self, now_s: int, local_s: int) -> None:
        """Sample the rates. `local_s` is local time in seconds, for midnights."""
        put_sums, get_sums = self.puts(), self.gets()
        puts, gets = put_sums.shown, get_sums.shown
        self.put_rate.sample(now_s, puts)
        self.get_rate.sample(now_s, gets)
        self.found_rate.sample(now_s, self.get_found)
        self.miss_rate.sample(now_s, self.get_misses)
        self.put_mornings.pass_time(local_s, put_sums.users)
        self.get_mornings.pass_time(local_s, get_sums.users)
        if now_s // MINUTE_STEP_S > self.sampled_s // MINUTE_STEP_S:
            self._sample_meters(now_s // MINUTE_STEP_S * MINUTE_STEP_S, puts, gets)
        self.sampled_s = now_s

    def _sample_meters(self, now_s: int, puts: int, gets: int) -> None:
        self.put_meter.sample(now_s, puts)
        self.get_meter.sample(now_s, gets)
        for counts in (*self.topics.values(), *self.groups.values()):
            counts.messages_meter.sample(now_s, int(counts.messages.value))
            counts.size_meter.sample(now_s, int(counts.bytes.value))
        for counts in self.groups.values():
            counts.pulls_meter.sample(now_s, counts.pulls)
        for sent_back in self.sent_back.values():
            sent_back.meter.sample(now_s, sent_back.count)

    # --- readings ---

    def puts(self) -> Sums:
        """Return the messages stored since the start."""
        return self._puts.sums()

    def gets(self) -> Sums:
        """Return the messages read since the start."""
        return self._gets.sums()

    @property
    def put_bytes_total(self) -> int:
        """Return the record bytes stored since the start, without Gantry's own topics."""
        shown = (counts for counts in self.topics.values() if counts.kind is not TopicKind.INTERNAL)
        return self._forgotten_bytes + int(sum(counts.bytes.value for counts in shown))

    def put_latency_us(self, share: float) -> int:
        """Return the upper bound, in µs, within which this share of the puts was answered."""
        return int(quantile(self.put_latency, share) * 1e6)

    def watch_lag(self, lags: Callable[[], Iterable[Lag]]) -> None:
        """Register the lag of groups, read on demand: by topic, and by queue for the queues with the largest lag."""
        self._metrics.gauge(
            "gantry_store_group_lag_messages",
            f"Messages in a queue that a group has not committed; the {LAG_ROWS_MAX} largest.",
            lambda: [
                ((lag.group, lag.topic, str(lag.queue_id)), lag.messages)
                for lag in nlargest(LAG_ROWS_MAX, lags(), key=_messages)
            ],
            ("group", "topic", "queue"),
        )

        def by_topic() -> dict[Labels, float]:
            sums: dict[Labels, float] = {}
            for lag in lags():
                key = (lag.group, lag.topic)
                sums[key] = sums.get(key, 0) + lag.messages
            return sums

        help_text = "Messages of a topic that a group has not committed."
        self._metrics.gauge("gantry_store_group_topic_lag_messages", help_text, by_topic, ("group", "topic"))

    def watch(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Register a number, read on demand."""
        self._metrics.gauge(name, help_text, read)

    def counted(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Register a number that only grows, read on demand."""
        self._metrics.counted(name, help_text, read)

    def forget_topic(self, topic: str) -> None:
        """Drop the metrics of a deleted topic."""
        counts = self.topics.pop(topic, None)
        if counts is not None:
            self._puts.forget(topic, counts)
            self._forgotten_bytes += int(counts.bytes.value)
            self._put_messages.forget(topic)
            self._put_bytes.forget(topic)
        for key in [key for key in self.groups if key[0] == topic]:
            self._forget_group(key)
        for key in [key for key in self.sent_back if key[0] == topic]:
            del self.sent_back[key]

    def forget_group(self, group: str) -> None:
        """Drop the metrics of a deleted group."""
        for key in [key for key in self.groups if key[1] == group]:
            self._forget_group(key)
        for key in [key for key in self.sent_back if key[1] == group]:
            del self.sent_back[key]

    def _forget_group(self, key: tuple[str, str]) -> None:
        counts = self.groups.pop(key)
        self._gets.forget(key, counts)
        self._get_messages.forget(*key)
        self._get_bytes.forget(*key)

    def _add_topic(self, topic: str) -> TopicMetrics:
        counts = TopicMetrics(
            self._put_messages.labels(topic), self._put_bytes.labels(topic), self._kind_of(topic)
        )
        self._begin(counts.messages_meter, counts.size_meter)
        self.topics[topic] = counts
        self._puts.add(topic, counts)
        return counts

    def _add_group(self, topic: str, group: str) -> GroupMetrics:
        messages, size = self._get_messages.labels(topic, group), self._get_bytes.labels(topic, group)
        counts = self.groups[(topic, group)] = GroupMetrics(messages, size, self._kind_of(topic))
        self._gets.add((topic, group), counts)
        self._begin(counts.messages_meter, counts.size_meter, counts.pulls_meter)
        return counts

    def _begin(self, *meters: Meter) -> None:
        for meter in meters:
            meter.begin(self.sampled_s)

    def _puts_today(self) -> int:
        return self.puts().users - self.put_mornings.today

    def _puts_yesterday(self) -> int:
        return self.put_mornings.today - self.put_mornings.yesterday

    def _gets_today(self) -> int:
        return self.gets().users - self.get_mornings.today

    def _gets_yesterday(self) -> int:
        return self.get_mornings.today - self.get_mornings.yesterday

    def _behind(self) -> dict[Labels, float]:
        return {key: counts.behind_bytes for key, counts in self.groups.items()}


def _messages(lag: Lag) -> int:
    return lag.messages


def quantile(histogram: Histogram, share: float) -> float:
    """Return the bound of the bucket that holds this share of the observations, 0 without any."""
    wanted = sum(histogram.counts) * share
    if wanted == 0:
        return 0.0
    running = 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        running += count
        if running >= wanted:
            return bound
    return histogram.bounds[-1]
