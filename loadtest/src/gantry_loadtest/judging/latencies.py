"""A latency histogram of fixed size, accurate to 1 %, that can be merged. Pure."""

from math import ceil, log

STEP = log(1.02)
SMALLEST_MS = 0.01


class Latencies:
    """Counts by logarithmic buckets of 2 %. Values in milliseconds."""

    __slots__ = ("_buckets", "count", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        """Add a value; values below 0.01 ms count as 0.01 ms."""
        bucket = int(log(max(ms, SMALLEST_MS) / SMALLEST_MS) / STEP)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.sum_ms += max(ms, 0.0)
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, share: float) -> float:
        """Return the value this share does not exceed, in ms; 0.0 when empty."""
        wanted, so_far = max(1, ceil(self.count * share)), 0
        for bucket in sorted(self._buckets):
            so_far += self._buckets[bucket]
            if so_far >= wanted:
                return min(self.max_ms, SMALLEST_MS * 1.02 ** (bucket + 0.5))
        return 0.0

    def mean(self) -> float:
        """Return the mean in ms; 0.0 when empty."""
        return self.sum_ms / self.count if self.count else 0.0

    def merge(self, other: "Latencies") -> None:
        """Add the counts of another histogram."""
        for bucket, count in other._buckets.items():  # noqa: SLF001 - of the same class
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.sum_ms += other.sum_ms
        self.max_ms = max(self.max_ms, other.max_ms)

    def to_list(self) -> list[float]:
        """Return it as plain numbers: sum, max, then bucket and count in turn."""
        return [self.sum_ms, self.max_ms, *(number for pair in self._buckets.items() for number in pair)]

    @classmethod
    def from_list(cls, numbers: list[float]) -> "Latencies":
        """Return the histogram of `to_list`."""
        made = cls()
        made.sum_ms, made.max_ms = numbers[0], numbers[1]
        made._buckets = {
            int(bucket): int(count) for bucket, count in zip(numbers[2::2], numbers[3::2], strict=True)
        }
        made.count = sum(made._buckets.values())
        return made
