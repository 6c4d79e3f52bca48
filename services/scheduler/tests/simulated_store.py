"""A store reduced to what a scheduler needs: queues, a clock that can step, claims with epochs, decisions made once."""

from schedule_records import record

from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleResult, SettleStatus

LEVEL_MS = (1000, 5000)


class SimulatedStore:
    """Holds the state a log would restore; nothing of it is lost."""

    def __init__(self):
        self.now_ms = 1_700_000_000_000
        self.wall_behind_ms = 0
        self.queues = {(SCHEDULE_TOPIC, 0): [], (SCHEDULE_TOPIC, 1): [], (TIMER_TOPIC, 0): []}
        self.decided = {key: {} for key in self.queues}
        self.delivered = []
        self.epoch = 0

    def claim(self):
        self.epoch += 1
        return self.epoch

    def send(self, number, level=None, due_ms=None):
        key = (TIMER_TOPIC, 0) if level is None else (SCHEDULE_TOPIC, level)
        due = due_ms if level is None else self.now_ms + LEVEL_MS[level]
        more = {"TIMER_OUT_MS": str(due)} if level is None else {"DELAY": str(level + 1)}
        self.queues[key].append((number, due, self.now_ms, more))

    def records(self, key, offset, count=4):
        rows = list(enumerate(self.queues[key]))[offset : offset + count]
        return b"".join(
            record(
                *key,
                at,
                at * 1000,
                store_ms=stored,
                REAL_TOPIC="orders",
                REAL_QID="0",
                UNIQ_KEY=f"U{number}",
                **more,
            )
            for at, (number, _, stored, more) in rows
        ), offset + len(rows)

    def cursor(self, key):
        return next(
            (n for n in range(len(self.queues[key])) if n not in self.decided[key]), len(self.queues[key])
        )

    def ranges(self, key):
        return [(n, n + 1) for n in sorted(self.decided[key]) if n >= self.cursor(key)]

    def settle(self, key, epoch, items):
        """Returns None when fenced."""
        if epoch != self.epoch:
            return None
        return [self._decide(key, item) for item in items]

    def _decide(self, key, item):
        number, due, _, _ = self.queues[key][item.offset]
        if item.offset in self.decided[key]:
            return SettleResult(item.offset, SettleStatus.ALREADY, outcome=self.decided[key][item.offset])
        now = self.now_ms - (self.wall_behind_ms if key == (TIMER_TOPIC, 0) else 0)
        if item.outputs and not item.force and now < due:
            return SettleResult(item.offset, SettleStatus.EARLY)
        self.decided[key][item.offset] = item.outcome
        for output in item.outputs:
            if output.topic == TIMER_TOPIC:
                self.send(number, due_ms=int(output.set["TIMER_OUT_MS"]))
            else:
                self.delivered.append((number, due, now))
        return SettleResult(item.offset, SettleStatus.SETTLED)
