"""Tasks over HTTP: redrives of dead letters, bulk cancellations and moves; each is followed until it ends or the client gives up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from gantry_simulation.clients.http_client import Answer
from gantry_simulation.ledger.leases import Sight
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.tasks import CANCEL, DONE, MOVE, REDRIVE, Letter, Progress, Task
from gantry_simulation.lives.operations.delays import instant_of
from gantry_simulation.lives.operations.doing import Doing, Operation, message_of, topic_of
from gantry_simulation.lives.operations.http.calls import (
    GROUP,
    JSON,
    call,
    expected_stores,
    note_refusal,
    query,
)
from gantry_simulation.lives.operations.http.schedules import listed, note_gone
from gantry_simulation.lives.operations.http.sends import key_of
from gantry_simulation.lives.operations.sends import is_plain, number_of, tag_of
from gantry_simulation.lives.plan import Act

LETTERS_MAX = 256
LOOKS, LOOK_SECONDS = 8, 0.5
"""How often, and with which pauses, a client asks for its task."""
PER_SECOND = 4
"""Limit of a slow task."""
TARGETS = (None, None, "original", "topic")
UNKNOWN = 404


async def dead_letters(doing: Doing) -> tuple[dict[Letter, str], bool]:
    """Return the dead letters with their messages, and whether these are all. Puts all of them into the ledger."""
    expected = await expected_stores(doing)
    found, has_all = await _pages(doing)
    is_whole = has_all and expected >= set(doing.stores())
    letters: dict[Letter, str] = {}
    redriven: dict[Letter, bool] = {}
    deaths: Counter[Sight] = Counter()
    for one in found:
        origin, message = one["deadLetter"], message_of(one["body"].encode())
        letter = Letter(one["broker"], one["queueId"], one["queueOffset"])
        letters[letter], redriven[letter] = message, origin["redriven"]
        place = Place(one["broker"], origin["originTopic"], origin["originQueueId"], origin["originOffset"])
        deaths[Sight(place, message)] += 1
    if is_whole:
        doing.ledger.leases.deaths, doing.ledger.tasks.redriven = deaths, redriven
    return letters, is_whole


async def _pages(doing: Doing) -> tuple[list[JSON], bool]:
    """Return the dead letters as they are listed, and whether no page failed and no expected store is missing."""
    found: list[JSON] = []
    after: str | None = None
    while True:
        path = f"/v1/groups/{GROUP}/deadLetters{query(max=LETTERS_MAX, after=after)}"
        answer = await call(doing, "GET", path)
        if not answer.is_success:
            return found, answer.status == UNKNOWN  # the group does not exist, and no store has letters of it
        page = answer.json()
        found += page["messages"]
        after = page["next"]
        if page["missing"] or after is None:
            return found, not page["missing"]


async def redrive(doing: Doing, act: Act) -> None:
    """Redrive dead letters: all, or those with a tag or a property."""
    letters, _ = await dead_letters(doing)
    kind, tag, bound = act.number % 4, tag_of(act.number), act.number // 2
    task = Task(REDRIVE, is_dry=act.number % 8 == 0)
    body: JSON = {"dryRun": task.is_dry}
    if kind == 1:
        task.wants = lambda message: is_plain(message) and tag_of(number_of(message)) == tag
        body["filter"] = {"expression": tag}
    elif kind == 2:
        task.wants = lambda message: is_plain(message) and number_of(message) > bound
        body["filter"] = {"type": "sql92", "expression": f"n > {bound}"}
    task.letters = {letter: message for letter, message in letters.items() if task.wants(message)}
    doing.ledger.tasks.begin(task)
    target = TARGETS[act.span_ms % len(TARGETS)]
    body["toTopic"] = topic_of(act) if target == "topic" else target
    await _run(doing, act, f"/v1/groups/{GROUP}/deadLetters:redrive", body, task)


async def bulk_cancel(doing: Doing, act: Act) -> None:
    """Cancel the delayed messages with a key."""
    task = _bulk(act, CANCEL)
    since = {store: doing.ledger.since(store, topic_of(act)) for store in doing.stores()}
    ended = await _run_bulk(doing, act, "/v1/schedules:bulkCancel", {}, task)
    if ended is None:
        return
    for store, was in since.items():
        those = [message for message in ended if doing.ledger.delays.delayed[message].store == store]
        if those:
            await note_gone(doing, store, topic_of(act), was, those, "a task had cancelled it before")


async def bulk_move(doing: Doing, act: Act) -> None:
    """Move the delayed messages with a key to one instant."""
    task = _bulk(act, MOVE)
    task.due = due = instant_of(doing, act)
    ended = await _run_bulk(doing, act, "/v1/schedules:bulkMove", {"deliverAt": due.instant_ms}, task)
    if ended is None:
        return
    found = await listed(doing, act, topic_of(act), task.key)
    delays = doing.ledger.delays
    for message, due_ms in (found or {}).items():
        delayed = delays.delayed[message]
        if due_ms == due.instant_ms and due in delayed.perhaps_due:
            delays.moved(message, due)
        elif message in ended and delayed.orders == ended[message] and due_ms != due.instant_ms:
            doing.violate(f"a task is done and has not moved {message}, which is due at {due_ms}")


def _bulk(act: Act, kind: str) -> Task:
    """Return the task of an act. A dry run changes nothing."""
    broker = act.on if act.number % 2 else None
    return Task(kind, is_dry=act.number % 8 == 0, key=key_of(act.number // 2), broker=broker)


async def _run_bulk(doing: Doing, act: Act, path: str, more: JSON, task: Task) -> dict[str, int] | None:
    """Run a bulk task. Returns the messages of the act's topic that it must have handled, with their number of orders.

    None if it is not known to have ended well.
    """
    tasks, delays, losses = doing.ledger.tasks, doing.ledger.delays, doing.ledger.losses
    must = [
        message
        for message in tasks.selected(task)
        if delays.delayed[message].topic == topic_of(act)
        and delays.is_known(message)
        and not delays.delayed[message].perhaps_due
        and not losses.is_doubtful(delays.delayed[message].store)
    ]
    tasks.begin(task)
    orders = {message: delays.delayed[message].orders for message in must}
    body = {"key": task.key, "broker": task.broker, "dryRun": task.is_dry, **more}
    await _run(doing, act, path, body, task)
    if task.ended is None or task.ended.state != DONE or task.ended.failed or task.is_dry:
        return None
    return {
        message: count
        for message, count in orders.items()
        if delays.delayed[message].orders == count
        and delays.delayed[message].is_certain
        and task.reaches(delays.delayed[message].store)
    }


async def _run(doing: Doing, act: Act, path: str, body: JSON, task: Task) -> None:
    """Start a task and follow it; sometimes it is slow, and cancelled."""
    is_stopped = act.number % 5 == 0
    if is_stopped or act.number % 3 == 0:
        body["maxPerSecond"] = PER_SECOND
    answer = await call(
        doing, "POST", path, {name: value for name, value in body.items() if value is not None}
    )
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return
    identifier = answer.json()["id"]
    doing.history.add(doing.name, f"starts {identifier}: {act.kind} {body}")
    doing.ledger.tasks.accept(identifier, task)
    if is_stopped:
        await asyncio.sleep(LOOK_SECONDS)
        task.may_be_cancelled = True
        await _ask(doing, identifier, "POST", ":cancel")
    for _ in range(LOOKS):
        if task.ended is not None:
            return
        await asyncio.sleep(LOOK_SECONDS)
        await _ask(doing, identifier, "GET", "")


async def _ask(doing: Doing, identifier: str, method: str, verb: str) -> Answer:
    """Ask for a task, or cancel it; put what it reports into the ledger. Raises NoAnswer."""
    tasks = doing.ledger.tasks
    answer = await call(doing, method, f"/v1/tasks/{identifier}{verb}")
    if answer.is_success and identifier in tasks.accepted:
        shown = answer.json()
        progress = Progress(*(shown[name] for name in Progress._fields))
        tasks.accepted[identifier].may_be_continued = doing.is_harmed()
        doing.history.add(doing.name, f"{identifier}: {progress}")
        tasks.reported(identifier, progress)
    elif answer.status == UNKNOWN and identifier in tasks.accepted:
        await _check_forgotten(doing, identifier)
    return answer


async def _check_forgotten(doing: Doing, identifier: str) -> None:
    """Ask once more for a task that is said not to exist: the gateway may only have learned of its store now. Raises NoAnswer."""
    tasks = doing.ledger.tasks
    if tasks.accepted[identifier].store in await expected_stores(doing):
        answer = await call(doing, "GET", f"/v1/tasks/{identifier}")
        if answer.status == UNKNOWN and identifier in tasks.accepted:
            tasks.forgotten(identifier)


async def look(doing: Doing, identifiers: Sequence[str]) -> None:
    """Ask for tasks. Raises NoAnswer."""
    for identifier in identifiers:
        await _ask(doing, identifier, "GET", "")


async def list_tasks(doing: Doing, act: Act) -> None:
    """List tasks, of all brokers or one, and compare them with those that were accepted."""
    tasks, losses = doing.ledger.tasks, doing.ledger.losses
    accepted, expected = set(tasks.accepted), await expected_stores(doing)
    answer = await call(doing, "GET", "/v1/tasks" + query(broker=act.on if act.number % 2 else None))
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return
    page = answer.json()
    found = {one["id"]: one for one in page["tasks"]}
    doing.history.add(doing.name, f"lists tasks: {', '.join(found)}, without {page['missing']}")
    for identifier in accepted & set(tasks.accepted):
        store = tasks.accepted[identifier].store
        is_asked = (
            store in expected and store not in page["missing"] and not (act.number % 2 and store != act.on)
        )
        if is_asked and identifier not in found and not losses.is_doubtful(store):
            doing.violate(f"task {identifier} is not listed")


REDRIVE_LETTERS, BULK_CANCEL, BULK_MOVE = "http redrive", "http bulk cancel", "http bulk move"
LIST = "http list tasks"
OPERATIONS: dict[str, Operation] = {
    REDRIVE_LETTERS: redrive,
    BULK_CANCEL: bulk_cancel,
    BULK_MOVE: bulk_move,
    LIST: list_tasks,
}
