"""The output of RocketMQ's benchmark programs is parsed as they print it."""

import pytest

from peers import rocketmq_report as report

PRODUCER = (
    "Current Time: 2025-03-04 10:20:{:02d},123 | Send TPS: {} | Max RT(ms): 270 | Average RT(ms):   1.925 "
    "| Send Failed: 1 | Response Failed: 2"
)
BATCH = (
    "Current Time: 2025-03-04 10:20:30,123 | Send TPS: 6869 | Send MPS: 219808 | Max RT(ms): 120 | Average RT(ms):   1.160 "
    "| Send Failed: 0 | Response Failed: 0"
)
CONSUMER = (
    "Current Time: 2025-03-04 10:20:30,123 | Consume TPS: 94321 | AVG(B2C) RT(ms):  12.500 | AVG(S2C) RT(ms):   3.100 "
    "| MAX(B2C) RT(ms): 90 | MAX(S2C) RT(ms): 20 | Failed Count: 3"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PRODUCER.format(5, 16611), (16611, 1.925, 3)),
        (BATCH, (219808, 1.16, 0)),
        (CONSUMER, (94321, 12.5, 3)),
        ("Current Time: 2025-03-04 10:20:30,123 | Send TPS: 0 | Max RT(ms): 0", (0, 0.0, 0)),
    ],
)
def test_a_report_is_rate_latency_and_failures(line: str, expected: tuple[float, ...]) -> None:
    assert report.read_report(line) == expected


@pytest.mark.parametrize("line", ["", "topic: BenchmarkTest, threadCount: 32", "Exception: Send TPS"])
def test_other_lines_are_no_reports(line: str) -> None:
    assert report.read_report(line) is None


def test_the_first_reports_are_left_out_and_the_rest_averaged() -> None:
    lines = ["topic: x", *(PRODUCER.format(n, rate) for n, rate in enumerate((1, 2, 100, 300)))]
    assert report.summary(lines) == (200.0, pytest.approx(1.925), 3, 2)
    assert report.summary(lines[:3]) == (0.0, 0.0, 3, 0)
    assert report.summary([]) == (0.0, 0.0, 0, 0)


def test_messages_a_cpu_second_of_the_broker() -> None:
    assert report.Side(report.Result(50_000.0, 0.6, 0, 4), 0.5).per_cpu_second == 100_000
    assert report.Side(report.Result(0.0, 0.0, 0, 0), 0.0).per_cpu_second == 0
