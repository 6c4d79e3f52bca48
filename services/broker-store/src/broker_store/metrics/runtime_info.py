"""The answer to code 28: metrics under the names that RocketMQ's tools expect, all as text."""

import platform
from typing import NamedTuple

from broker_store.metrics.store_metrics import StoreMetrics
from gantry_chassis.metrics import Histogram
from gantry_wire.names import TIMER_TOPIC

VERSION_NAME = "V5_3_3"
_NO_RATE = "0.0 0.0 0.0"
_DISTRIBUTION = (
    ("[<=0ms]", 0.001),
    ("[0~10ms]", 0.01),
    ("[10~50ms]", 0.05),
    ("[50~100ms]", 0.1),
    ("[100~200ms]", 0.2),
    ("[200~500ms]", 0.5),
    ("[500ms~1s]", 1.0),
    ("[1~2s]", 2.0),
    ("[2~3s]", 3.0),
    ("[3~4s]", 4.0),
    ("[4~5s]", 5.0),
    ("[5~10s]", 10.0),
)


class RuntimeState(NamedTuple):
    """What the metrics do not hold."""

    now_ms: int
    boot_ms: int
    log_min: int
    log_max: int
    earliest_ms: int
    """Store time of the oldest message, or now if there is none."""
    disk_total: int
    disk_free: int
    store_dir: str
    dispatch_behind: int
    unflushed_bytes: int
    accept_sends_after_ms: int = 0


def runtime_info(metrics: StoreMetrics, state: RuntimeState) -> dict[str, str]:
    """Return the table. The caller adds the `extra` entries of other parts."""
    info: dict[str, str | int | float] = {
        **_rates(metrics),
        **_totals(metrics),
        **_puts(metrics),
        **_disk(state),
        "brokerVersionDesc": VERSION_NAME,
        "brokerVersion": 479,
        "brokerActive": "true",
        "bootTimestamp": state.boot_ms,
        "startAcceptSendRequestTimeStamp": state.accept_sends_after_ms,
        "runtime": _duration(state.now_ms - state.boot_ms),
        "earliestMessageTimeStamp": state.earliest_ms,
        "dispatchBehindBytes": state.dispatch_behind,
        "dispatchMaxBuffer": 0,
        "pageCacheLockTimeMills": 0,
        "getMessageEntireTimeMax": 0,
        "remainTransientStoreBufferNumbs": 0,
        "remainHowManyDataToCommit": "0 B",
        "remainHowManyDataToFlush": f"{state.unflushed_bytes} B",
        "timerReadBehind": 0,
        "timerOffsetBehind": 0,
        **_timers(metrics),
        "os": platform.platform(),
    }
    return {key: str(value) for key, value in info.items()}


def _rates(metrics: StoreMetrics) -> dict[str, str]:
    now_s = metrics.sampled_s
    gets = metrics.get_rate.text(now_s)
    return {
        "putTps": metrics.put_rate.text(now_s),
        "getFoundTps": metrics.found_rate.text(now_s),
        "getMissTps": metrics.miss_rate.text(now_s),
        "getTotalTps": gets,
        "getTransferredTps": gets,
        "getTransferedTps": gets,
    }


def _timers(metrics: StoreMetrics) -> dict[str, str | int]:
    """Return the numbers of waiting messages. The scheduler, which delivers them, has the metrics of lateness."""
    waiting = metrics.topics.get(TIMER_TOPIC)
    taken = 0.0 if waiting is None else waiting.messages_meter.minute(metrics.sampled_s).per_second
    levels = {
        f"scheduleMessageOffset_{level}": f"{delivered},{end}"
        for level, (delivered, end) in sorted(metrics.levels.items())
    }
    return {
        "timerCongestNum": metrics.timers_waiting,
        "timerEnqueueTps": f"{taken:.1f}",
        "timerDequeueTps": f"{metrics.timer_rate.per_second(metrics.sampled_s):.1f}",
        **levels,
    }


def _totals(metrics: StoreMetrics) -> dict[str, int]:
    return {
        "msgPutTotalYesterdayMorning": metrics.put_mornings.yesterday,
        "msgPutTotalTodayMorning": metrics.put_mornings.today,
        "msgPutTotalTodayNow": metrics.puts().users,
        "msgGetTotalYesterdayMorning": metrics.get_mornings.yesterday,
        "msgGetTotalTodayMorning": metrics.get_mornings.today,
        "msgGetTotalTodayNow": metrics.gets().users,
    }


def _puts(metrics: StoreMetrics) -> dict[str, str | int | float]:
    count, size = metrics.puts().shown, metrics.put_bytes_total
    return {
        "putMessageTimesTotal": count,
        "putMessageFailedTimes": 0,
        "putMessageSizeTotal": size,
        "putMessageAverageSize": size / count if count else 0.0,
        "putMessageEntireTimeMax": metrics.put_latency_max_us // 1000,
        "putMessageDistributeTime": distribution(metrics.put_latency),
        "putLatency99": metrics.put_latency_us(0.99) / 1000,
        "putLatency999": metrics.put_latency_us(0.999) / 1000,
    }


def _disk(state: RuntimeState) -> dict[str, str | int | float]:
    used = 1 - state.disk_free / state.disk_total if state.disk_total else 0.0
    return {
        "commitLogMinOffset": state.log_min,
        "commitLogMaxOffset": state.log_max,
        "commitLogDiskRatio": used,
        f"commitLogDiskRatio_{state.store_dir}/commitlog": used,
        "consumeQueueDiskRatio": used,
        "commitLogDirCapacity": f"Total : {_size(state.disk_total)}, Free : {_size(state.disk_free)}.",
    }


def distribution(latency: Histogram) -> str:
    """Return put latencies in RocketMQ's buckets, as `[0~10ms]:5 …`."""
    parts: list[str] = []
    running = 0
    at = 0
    for name, bound in _DISTRIBUTION:
        before = running
        while at < len(latency.bounds) and latency.bounds[at] <= bound:
            running += latency.counts[at]
            at += 1
        parts.append(f"{name}:{running - before}")
    parts.append(f"[10s~]:{sum(latency.counts[at:])}")
    return " ".join(parts)


def _duration(elapsed_ms: int) -> str:
    """Return a time span in RocketMQ's form."""
    seconds = max(elapsed_ms, 0) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def _size(size: int) -> str:
    """Return a size in the largest binary unit below it."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
