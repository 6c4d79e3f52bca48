"""Each method of the scheduler's client sends its code and body and reads the typed answer."""

import msgspec
import pytest
from scripted_broker import scripted

from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.errors import BrokerRefused
from gantry_wire.private_requests.scheduling import (
    CreateTask,
    ListParked,
    ListSchedules,
    ListTasks,
    MoveSchedule,
    ScheduleAnswer,
    ScheduleOrder,
    SchedulesPage,
    TaskOrder,
    TasksPage,
    TaskView,
    split_task_id,
    task_id,
)

TASK = TaskView(
    id="a.1", kind="redrive", state="running", broker="a", definition=CreateTask(kind="redrive", group="g")
)
CANCELLED = ScheduleAnswer(status="cancelled", id="X", brokers=["a"])
CALLS = [
    (9010, "list_schedules", ListSchedules(topic="t"), SchedulesPage(brokers=["a"])),
    (9011, "cancel", ScheduleOrder(id="X"), CANCELLED),
    (9012, "move", MoveSchedule(id="X", deliver_at_ms=5), CANCELLED),
    (9013, "deliver_now", ScheduleOrder(id="X"), CANCELLED),
    (9014, "create_task", CreateTask(kind="redrive", group="g"), TASK),
    (9015, "show_task", TaskOrder(id="a.1"), TASK),
    (9016, "cancel_task", TaskOrder(id="a.1"), TASK),
    (9017, "list_tasks", ListTasks(limit=3), TasksPage(tasks=[TASK])),
    (9018, "list_parked", ListParked(), SchedulesPage(next="n")),
    (9019, "resend_parked", ScheduleOrder(id="X"), CANCELLED),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("code", "method", "ask", "answer"), CALLS)
async def test_a_call_sends_its_body_and_reads_its_answer(code, method, ask, answer):
    async with scripted({code: (0, None, msgspec.json.encode(answer))}) as (script, address, pool):
        assert await getattr(SchedulerClient(pool, address), method)(ask) == answer
        assert msgspec.json.decode(script.last.body, type=type(ask)) == ask


@pytest.mark.anyio
async def test_a_refusal_is_raised():
    async with scripted({9015: (22, None, b"", "no such task")}) as (_, address, pool):
        with pytest.raises(BrokerRefused, match="no such task"):
            await SchedulerClient(pool, address).show_task(TaskOrder(id="a.1"))


@pytest.mark.parametrize("text", ["", "a", ".5", "a.", "a.x", "a." + "9" * 19])
def test_an_invalid_task_id_gives_none(text):
    assert split_task_id(text) is None


def test_a_task_id_contains_its_broker_and_offset():
    assert split_task_id(task_id("broker.a", 12)) == ("broker.a", 12)
