"""Faults planted in what gateways ask for: tasks, orders and lists of schedulers, checks of transactions, searches and pulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gantry_simulation.lives.planted.fault import Planted
from gantry_wire.private_requests.scheduling import MessageFilter, Schedule, ScheduleAnswer, ScheduleOrder
from gantry_wire.private_requests.settling import SettleItem
from gantry_wire.records.message_record import Record
from gateway.messages.schemas import MessageOut
from gateway.pull import queries
from gateway.stores.link_store import LinkStore
from scheduler.index.entries import Entry
from scheduler.orders import listing, orders
from scheduler.tasks import bulk, redrive
from scheduler.tasks.bulk import Bulk
from scheduler.tasks.desk import Desk
from scheduler.tasks.redrive import Redrive
from scheduler.tasks.running_task import RunningTask
from txn_checker import answers
from txn_checker.answers import Answers


def _send_twice(right: Callable[..., SettleItem]) -> Callable[..., SettleItem]:
    def item(*arguments: Any) -> SettleItem:
        made = right(*arguments)
        made.outputs = [*made.outputs, *made.outputs]
        return made

    return item


def _wants_all(_right: Any) -> Callable[[MessageFilter | None], Callable[[bytes], bool]]:
    return lambda _asked: lambda _properties: True


def _count_only(_right: Any) -> Any:
    async def settle(
        _work: Redrive, task: RunningTask, _queue: object, _epoch: int, records: list[Record]
    ) -> None:
        task.count("redriven", len(records))

    return settle


def _end_with_first(right: Callable[..., Any]) -> Any:
    async def queues(work: Redrive, task: RunningTask) -> Any:
        found = await right(work, task)
        for queue in found:
            task.marks[queue.mark] = task.marks[f"{queue.mark}:end"]
            task.count("skipped", task.view.total - task.view.done)
        return found

    return queues


def _deliver(_right: Any) -> Any:
    async def order(_work: Bulk, task: RunningTask, scheduler: Any, one: Schedule) -> ScheduleAnswer:
        answer = await scheduler.deliver_now(ScheduleOrder(id=one.id, broker=one.broker))
        done = "cancelled" if task.view.definition.kind == "bulkCancel" else "moved"
        return ScheduleAnswer(status=done if answer.status == "delivered" else answer.status, id=one.id)

    return order


def _pass_over(_right: Any) -> Callable[[RunningTask, Schedule], bool]:
    return lambda _task, one: one.system_offset % 2 == 0


def _keep_time(right: Callable[[Entry, int], SettleItem]) -> Callable[[Entry, int], SettleItem]:
    return lambda entry, _due_ms: right(entry, entry.due_ms)


def _none(_right: Any) -> Callable[..., list[Any]]:
    return lambda *_arguments: []


def _without_last(right: Callable[..., tuple[list[MessageOut], bool]]) -> Any:
    def cut(found: list[MessageOut], count_max: int) -> tuple[list[MessageOut], bool]:
        return right(found[:-1], count_max)

    return cut


def _without_filter(right: Callable[..., Any]) -> Any:
    def pull(store: LinkStore, *arguments: Any, **_sql: str) -> Any:
        return right(store, *arguments[:-1], "")

    return pull


def _forget(_right: Any) -> Any:
    async def begin_all(_desk: Desk) -> None:
        """Continue no task of an earlier term."""

    return begin_all


def _no_checks(_right: Any) -> Any:
    async def waiting(*_arguments: object) -> list[Any]:
        return []

    return waiting


def _all_of_it(_right: Any) -> Callable[[int, int, int, object], list[tuple[int, int]]]:
    return lambda _begin, end, _cursor, _ranges: [(0, end)]


TASK_FAULTS = (
    Planted("a redrive sends each letter twice", redrive, "_item", _send_twice),
    Planted("a redrive sends letters that its filter excludes", redrive, "message_filter", _wants_all),
    Planted("a redrive counts what it does not send", Redrive, "_settle", _count_only),
    Planted("a redrive ends before it has sent anything", Redrive, "_queues", _end_with_first),
    Planted("a bulk task delivers", Bulk, "_order", _deliver),
    Planted("a bulk task passes over some messages", bulk, "_is_old", _pass_over),
    Planted("a task is not continued", Desk, "_begin_all", _forget),
    Planted("a moved message keeps its time", orders, "move", _keep_time),
    Planted("a list leaves out what is due soon", listing, "near_rows", _none),
    Planted("checks are shown to nobody", Answers, "_waiting", _no_checks),
    Planted("parked transactions stay listed when they are decided", answers, "gaps", _all_of_it),
    Planted("a search leaves out the last message", queries, "_cut", _without_last),
    Planted("a pull has no filter", LinkStore, "pull", _without_filter),
)
