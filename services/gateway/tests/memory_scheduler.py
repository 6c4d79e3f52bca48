"""An in-memory scheduler: holds the tests' schedules, and is away or not ready on demand."""

from __future__ import annotations

import msgspec

from gantry_wire.private_requests.scheduling import (
    Schedule,
    ScheduleAnswer,
    SchedulesPage,
    TasksPage,
    TaskView,
    task_id,
)
from gateway.ports.stores import PeerAway, StoreRefused


class MemoryScheduler:
    """One scheduler that may hold several brokers."""

    def __init__(self) -> None:
        self.waiting: list[Schedule] = []
        self.parked: list[Schedule] = []
        self.decided: set[str] = set()
        self.serves = {"broker-a", "broker-b"}
        """The brokers whose claims it holds. It lists nothing of the others."""
        self.unfinished: set[str] = set()
        self.tasks: dict[str, TaskView] = {}
        self.failing = ""
        self.failures: list[Exception] = []
        self.calls: list[tuple[str, object]] = []

    def add(
        self, message_id: str, broker: str = "broker-a", deliver_at_ms: int = 5000, **fields: object
    ) -> None:
        one = {
            "id": message_id,
            "broker": broker,
            "topic": "orders",
            "queue_id": 1,
            "deliver_at_ms": deliver_at_ms,
            "kind": "instant",
            "system_queue_id": 0,
            "system_offset": len(self.waiting),
            "position": 100 * len(self.waiting),
        }
        self.waiting.append(Schedule(**(one | fields)))

    def _enter(self, call: str, ask: object) -> None:
        self.calls.append((call, ask))
        if self.failures:
            raise self.failures.pop(0)

    async def list_schedules(self, query):
        self._enter("list", query)
        return self._page(self.waiting, query)

    async def list_parked(self, query):
        self._enter("parked", query)
        return self._page(self.parked, query)

    def _page(self, held, query):
        held = [
            one
            for one in held
            if one.broker in self.serves
            and query.broker in (None, one.broker)
            and query.topic in (None, one.topic)
            and getattr(query, "key", None) in (None, *one.keys)
            and (getattr(query, "from_ms", None) or 0)
            <= one.deliver_at_ms
            < (getattr(query, "to_ms", None) or 2**63)
        ]
        held.sort(key=lambda one: (one.deliver_at_ms, one.position))
        after = (-1, -1) if query.after is None else tuple(map(int, query.after.split("-")))
        rest = [one for one in held if (one.deliver_at_ms, one.position) > after]
        page = rest[: query.limit]
        following = f"{page[-1].deliver_at_ms}-{page[-1].position}" if len(rest) > len(page) else None
        return SchedulesPage(
            schedules=page,
            next=following,
            brokers=sorted(self.serves & {query.broker}),
            incomplete=sorted(self.unfinished),
        )

    def _order(self, name, order, status, deliver_at_ms=None):
        self._enter(name, order)
        common = {"id": order.id, "brokers": [order.broker], "incomplete": sorted(self.unfinished)}
        held = self.parked if name == "resend" else self.waiting
        found = [one for one in held if one.id == order.id and one.broker == order.broker]
        if self.failing:
            return ScheduleAnswer(status="failed", error=self.failing, broker=order.broker, **common)
        if found:
            held.remove(found[0])
            self.decided.add(order.id)
            return ScheduleAnswer(status=status, broker=order.broker, deliver_at_ms=deliver_at_ms, **common)
        if order.broker in self.unfinished:
            return ScheduleAnswer(status="notReady", **common)
        return ScheduleAnswer(status="alreadyDelivered" if order.id in self.decided else "unknown", **common)

    async def cancel(self, order):
        return self._order("cancel", order, "cancelled")

    async def deliver_now(self, order):
        return self._order("deliver_now", order, "delivered")

    async def resend_parked(self, order):
        return self._order("resend", order, "delivered")

    async def move(self, order):
        return self._order("move", order, "moved", order.deliver_at_ms)

    async def create_task(self, task):
        self._enter("create_task", task)
        broker = task.broker or "broker-a"
        view = TaskView(
            id=task_id(broker, len(self.tasks)),
            kind=task.kind,
            state="running",
            broker=broker,
            definition=task,
            total=3,
            created_ms=1000 * len(self.tasks),
        )
        self.tasks[view.id] = view
        return view

    async def show_task(self, order):
        self._enter("show_task", order)
        if order.id not in self.tasks:
            raise StoreRefused(22, "there is no such task")
        return self.tasks[order.id]

    async def cancel_task(self, order):
        view = await self.show_task(order)
        if view.state == "running":
            view = self.tasks[order.id] = msgspec.structs.replace(view, state="cancelled")
        return view

    async def list_tasks(self, query):
        self._enter("list_tasks", query)
        held = [
            one
            for one in self.tasks.values()
            if one.broker in self.serves and query.state in (None, one.state)
        ]
        return TasksPage(
            tasks=held[::-1][: query.limit],
            brokers=sorted(self.serves),
            incomplete=sorted(self.unfinished),
        )


class MemorySchedulers:
    """The claim holders of each broker, by address; implements the Schedulers port."""

    def __init__(self) -> None:
        self.by_address = {"127.0.0.1:10921": MemoryScheduler()}
        self.holders: dict[str, str | None] = {}
        self.default: str | None = "127.0.0.1:10921"
        self.asked = 0
        self.away_brokers: set[str] = set()

    @property
    def one(self) -> MemoryScheduler:
        return self.by_address["127.0.0.1:10921"]

    async def holder(self, broker, topic):
        self.asked += 1
        if broker.name in self.away_brokers:
            raise PeerAway(broker.name, False, "not connected")
        return self.holders.get(broker.name, self.default)

    def at(self, address):
        if address not in self.by_address:
            raise PeerAway(address, False, "not connected")
        return self.by_address[address]
