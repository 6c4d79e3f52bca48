"""Tasks of schedulers: what each had to do, what it has reported. Each dead letter is sent again at most once, by whichever task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from gantry_simulation.ledger.delays import Delays, Due
from gantry_simulation.ledger.messages import Messages
from gantry_simulation.ledger.places import Losses, Place

REDRIVE, CANCEL, MOVE = "redrive", "bulkCancel", "bulkMove"
RUNNING, DONE, CANCELLED = "running", "done", "cancelled"


class Letter(NamedTuple):
    """A dead letter: its place in the dead letters of its store."""

    store: str
    queue: int
    offset: int


class Progress(NamedTuple):
    """What a task reports about itself."""

    state: str
    done: int
    failed: int
    total: int
    outcomes: dict[str, int]


@dataclass(slots=True)
class Task:
    """A task that was requested."""

    kind: str
    is_dry: bool = False
    key: str = ""
    """Of a bulk task: the key of its messages."""
    broker: str | None = None
    """Of a bulk task: the only store that it works on."""
    due: Due | None = None
    """Of a bulk move."""
    wants: Callable[[str], bool] = lambda _message: True
    """Of a redrive: its filter, by message."""
    letters: dict[Letter, str] = field(default_factory=dict[Letter, str])
    """Of a redrive: wanted dead letters that were there before it, with their messages."""
    store: str = ""
    """The store with its records, once it is accepted."""
    may_be_cancelled: bool = False
    may_be_continued: bool = False
    """Whether a fault may have ended a term of its scheduler. The next term continues at the last checkpoint."""
    ended: Progress | None = None

    def reaches(self, store: str) -> bool:
        """Whether it certainly works on a store. A scheduler that has just started may not know another one that is away."""
        return store == self.store or not self.may_be_continued


class Tasks:
    """All tasks. `violate` is called with each contradiction."""

    def __init__(
        self, losses: Losses, messages: Messages, delays: Delays, violate: Callable[[str], None]
    ) -> None:
        self._losses, self._messages, self._delays, self._violate = losses, messages, delays, violate
        self._requested: list[Task] = []
        """All tasks that were requested, whether or not there was an answer."""
        self.accepted: dict[str, Task] = {}
        """Tasks that were answered, by id."""
        self.redriven: dict[Letter, bool] = {}
        """Whether a letter is listed as redriven, by the latest list of everything."""
        self._copies: defaultdict[Letter, dict[Place, str]] = defaultdict(dict[Place, str])
        """Where each letter was sent to, and by which task."""
        self._damaged: set[Place] = set()
        """Copies whose record changed on the device."""

    def begin(self, task: Task) -> None:
        """Record that a task is being requested: what it selects may be cancelled, moved or sent again from now on."""
        self._requested.append(task)
        for message in self._delays.delayed:
            self._may_be_changed(message, task)

    def sending(self, message: str) -> None:
        """Record that a delayed message is being sent, which tasks that still run may select."""
        for task in self._requested:
            if task.ended is None:
                self._may_be_changed(message, task)

    def selected(self, task: Task) -> list[str]:
        """Return the messages that a bulk task may select."""
        return [message for message in self._delays.delayed if self._is_selected(message, task)]

    def _is_selected(self, message: str, task: Task) -> bool:
        delayed = self._delays.delayed[message]
        return task.kind != REDRIVE and delayed.key == task.key and task.broker in (None, delayed.store)

    def _may_be_changed(self, message: str, task: Task) -> None:
        if task.is_dry or not self._is_selected(message, task):
            return
        if task.due is None:
            self._delays.may_be_cancelled(message)
        else:
            self._delays.may_be_moved(message, task.due)

    def may_have_copies(self, message: str) -> bool:
        """Whether a task may have sent a message again."""
        return any(task.kind == REDRIVE and task.wants(message) for task in self._requested)

    def copied(self, letter: Letter, task_id: str, place: Place, message: str) -> None:
        """Record that a message at a place is a letter that a task has sent again."""
        copies = self._copies[letter]
        copies[place] = task_id
        if len(copies.keys() - self._damaged) > 1 and not self._is_doubtful(place):
            self._violate(f"the dead letter {letter} is sent again twice: {', '.join(map(str, copies))}")
        task = self.accepted.get(task_id)
        if task is not None and (task.is_dry or not task.wants(message)):
            self._violate(f"{task_id} sends {message} again, which it must not")

    def copy_damaged(self, letter: Letter, task_id: str, place: Place, message: str) -> None:
        """Record that the record of a copy changed on the device.

        The task has sent it, although nobody can read it. Only this record says that the letter is decided: the store may
        forget that, and the letter may be sent again.
        """
        self._damaged.add(place)
        self.copied(letter, task_id, place, message)

    def _is_doubtful(self, place: Place) -> bool:
        return self._losses.has_lost(place.store) or self._losses.is_deleted(place.store, place.topic)

    def accept(self, identifier: str, task: Task) -> None:
        """Record that a task was answered, with its id."""
        self.accepted[identifier] = task
        task.store = _store_of(identifier)

    def open(self) -> list[str]:
        """Return the ids of accepted tasks whose end was not seen."""
        return [identifier for identifier, task in self.accepted.items() if task.ended is None]

    def forgotten(self, identifier: str) -> None:
        """Record that the scheduler of a store has no task with this id, although it was accepted."""
        if not self._losses.has_lost(_store_of(identifier)):
            self._violate(f"task {identifier} is unknown to its scheduler")
        del self.accepted[identifier]

    def reported(self, identifier: str, progress: Progress) -> None:
        """Record what a task reports. Its counts are checked, and its state."""
        task = self.accepted[identifier]
        counted = progress.done + progress.failed
        is_whole = counted == progress.total if progress.state == DONE else counted <= progress.total
        if not is_whole or sum(progress.outcomes.values()) != counted:
            self._violate(f"task {identifier} counts wrong: {progress}")
        if progress.state == RUNNING:
            return
        if progress.state != DONE and not (progress.state == CANCELLED and task.may_be_cancelled):
            self._violate(f"task {identifier} ends as {progress.state}")
        task.ended = progress

    def shown_as_redriven(self) -> set[Letter]:
        """Return the letters that the latest list shows as redriven. A reading that begins later finds all their copies."""
        return {letter for letter, is_redriven in self.redriven.items() if is_redriven}

    def check(self, found: dict[Place, str]) -> None:
        """Compare what tasks reported with everything that is readable in the end."""
        delivered = set(found.values())
        for identifier, task in self.accepted.items():
            if task.ended is None:
                continue
            if task.kind == REDRIVE:
                self._check_redrive(identifier, task, task.ended)
            else:
                self._check_bulk(identifier, task, task.ended, delivered)
        for letter, is_redriven in self.redriven.items():
            copies = self._copies.get(letter, {})
            is_forgotten = not is_redriven and copies.keys() <= self._damaged
            if bool(copies) != is_redriven and not is_forgotten and not self._may_miss(letter.store):
                self._violate(f"the dead letter {letter} is shown with redriven={is_redriven}")

    def _may_miss(self, store: str) -> bool:
        """Whether copies of letters may be gone, from a store or with a topic."""
        return self._losses.has_lost(store) or self._losses.has_deleted(store)

    def _check_redrive(self, identifier: str, task: Task, ended: Progress) -> None:
        stores = {letter.store for letter in (*task.letters, *self._copies)}
        if any(map(self._may_miss, stores)):
            return
        sent = sum(list(copies.values()).count(identifier) for copies in self._copies.values())
        redriven, before = ended.outcomes.get("redriven", 0), ended.outcomes.get("redrivenBefore", 0)
        # A cancelled task does not come again to what it sent after its last checkpoint, and never counts it.
        counts_all = ended.state == DONE or not task.may_be_continued
        if sent < redriven or (counts_all and sent > redriven + before):
            self._violate(f"task {identifier} has sent {sent} letters again, and reports {ended.outcomes}")
        if ended.state != DONE or ended.failed or task.is_dry:
            return
        for letter, message in task.letters.items():
            if task.reaches(letter.store) and not self._copies.get(letter):
                self._violate(f"task {identifier} is done and has not sent {message} of {letter} again")

    def _check_bulk(self, identifier: str, task: Task, ended: Progress, delivered: Collection[str]) -> None:
        """Compare the number of cancelled messages with those that nobody delivered."""
        selected = self.selected(task)
        if ended.total > len(selected):
            self._violate(
                f"task {identifier} reports {ended}, but only {len(selected)} messages have its key"
            )
        if any(self._losses.has_lost(self._delays.delayed[message].store) for message in selected):
            return
        missing = sum(message not in delivered for message in selected)
        if ended.outcomes.get("cancelled", 0) > missing:
            self._violate(
                f"task {identifier} reports {ended.outcomes}, but only {missing} messages are not delivered"
            )


def _store_of(identifier: str) -> str:
    """Return the store that has the records of a task."""
    return identifier.rpartition(".")[0]
