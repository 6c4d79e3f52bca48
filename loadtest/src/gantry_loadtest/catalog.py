"""The profiles by name: the question of each, and its defaults. Standard library only, so that listing is fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One profile. `rate` is sends a second of all users together; `count` is the number of topics or groups."""

    name: str
    module: str
    question: str
    measure: str
    """The latency that p50 and p99 of the verdict measure."""
    users: int = 10
    rate: float = 100.0
    seconds: float = 60.0
    size: int = 256
    shape: str = "steady"
    count: int = 0


PROFILES = {
    entry.name: entry
    for entry in (
        Entry("send", "send", "How long does a send take at a steady rate, and is everything there afterwards?", "send"),
        Entry(
            "end-to-end", "end_to_end", "How long from a send to the consumer that holds a pull?", "delivery"
        ),
        Entry(
            "receive", "receive",
            "Do slow and failing consumers lose or duplicate messages, and what do they cost the others?", "delivery", rate=50,
        ),
        Entry("delay", "delay", "How late are delayed messages under load, and is one ever early?", "lateness", rate=50),
        Entry(
            "transactions", "transactions",
            "What does a transaction cost, and what happens to the transactions of a lost producer?", "transaction", rate=30,
        ),
        Entry(
            "burst", "burst", "What does a burst of ten times the load do, and how soon is it over?", "send", rate=40,
            shape="burst",
        ),
        Entry(
            "fan-out", "fan_out", "How does delivery perform when many groups want every message?", "delivery", rate=20, count=20
        ),
        Entry("large", "large", "How fast are large messages, and do they arrive intact?", "delivery", 4, 4),
        Entry(
            "topics", "topics", "Does it matter that messages are spread over many topics?", "delivery", rate=50, count=100
        ),
        Entry("ramp", "ramp", "At which rate is the knee of the latency?", "send", 50, 1000, shape="ramp"),
        Entry("spike", "spike", "Is each short spike over before the next one?", "send", rate=50, shape="spike"),
        Entry(
            "soak", "soak", "Is it as fast and as correct at the end of a long mixed load as at its beginning?", "delivery",
            rate=50, seconds=600, shape="soak",
        ),
    )
}  # fmt: skip
