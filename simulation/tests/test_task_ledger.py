"""What the ledger notices about tasks of schedulers: letters sent again, counts, and messages that no longer wait."""

from __future__ import annotations

import pytest

from gantry_simulation.ledger.delays import Due, Gone
from gantry_simulation.ledger.ledger import Ledger
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.tasks import CANCEL, REDRIVE, Letter, Progress, Task
from gantry_simulation.world.world import World

STORE, TOPIC, KEY = "store-0", "Topic0", "key0"
LETTER = Letter(STORE, 0, 3)
COPY = Place(STORE, TOPIC, 1, 7)


class Noted:
    """A ledger, and what it noticed."""

    def __init__(self, world: World) -> None:
        self.ledger, self._world = Ledger(world), world

    def accept(self, task: Task) -> Task:
        self.ledger.tasks.begin(task)
        self.ledger.tasks.accept("store-0.1", task)
        return task

    def report(self, state: str, total: int, **outcomes: int) -> None:
        failed = outcomes.get("failed", 0)
        done = sum(outcomes.values()) - failed
        self.ledger.tasks.reported("store-0.1", Progress(state, done, failed, total, outcomes))

    def delay(self, message: str) -> None:
        self.ledger.delays.begin(message, STORE, TOPIC, Due(0, wait_seconds=1000.0), key=KEY)
        self.ledger.delays.acknowledged(message)

    @property
    def violations(self) -> list[str]:
        return [violation.what for violation in self._world.violations]


@pytest.fixture
def noted():
    with World(1) as world:
        yield Noted(world)


def test_a_letter_that_is_sent_again_twice_is_noticed(noted: Noted) -> None:
    noted.accept(Task(REDRIVE))
    noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    assert noted.violations == []
    noted.ledger.tasks.copied(LETTER, "store-0.2", COPY._replace(offset=9), "h1")
    assert "sent again twice" in noted.violations[0]


@pytest.mark.parametrize(
    "task", [Task(REDRIVE, is_dry=True), Task(REDRIVE, wants=lambda _message: False)], ids=["dry", "filter"]
)
def test_a_letter_that_a_task_must_not_send_is_noticed(noted: Noted, task: Task) -> None:
    noted.accept(task)
    noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    assert "must not" in noted.violations[0]


def test_a_finished_redrive_must_have_sent_its_letters(noted: Noted) -> None:
    noted.accept(Task(REDRIVE, letters={LETTER: "h1"}))
    noted.report("done", 1, redriven=1)
    noted.ledger.tasks.check({})
    assert len(noted.violations) == 2
    assert "has not sent h1" in noted.violations[1]


@pytest.mark.parametrize(("is_harmed", "found"), [(False, 1), (True, 0)])
def test_after_a_fault_a_redrive_may_leave_out_letters_of_a_store_that_its_scheduler_did_not_know(
    noted: Noted, is_harmed: bool, found: int
) -> None:
    task = noted.accept(Task(REDRIVE, letters={LETTER._replace(store="store-1"): "h1"}))
    task.may_be_continued = is_harmed
    noted.report("done", 0)
    noted.ledger.tasks.check({})
    assert len(noted.violations) == found


def test_a_redrive_that_repeats_after_a_crash_is_right(noted: Noted) -> None:
    noted.accept(Task(REDRIVE, letters={LETTER: "h1"}))
    noted.report("done", 1, redrivenBefore=1)
    noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    noted.ledger.tasks.redriven = {LETTER: True}
    noted.ledger.tasks.check({COPY: "h1"})
    assert noted.violations == []


@pytest.mark.parametrize(
    ("state", "may_be_continued", "counted", "is_wrong"),
    [
        ("cancelled", True, 0, False),
        ("cancelled", False, 0, True),
        ("cancelled", True, 2, True),
        ("done", True, 0, True),
    ],
)
def test_only_a_cancelled_redrive_that_was_continued_may_have_sent_what_it_does_not_count(
    noted: Noted, state: str, may_be_continued: bool, counted: int, is_wrong: bool
) -> None:
    """The next term continues at the last checkpoint, before the letter. A cancellation can end the task there."""
    noted.accept(Task(REDRIVE, may_be_cancelled=True, may_be_continued=may_be_continued))
    noted.report(state, counted, **({"redriven": counted} if counted else {}))
    noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    noted.ledger.tasks.redriven = {LETTER: True}
    noted.ledger.tasks.check({COPY: "h1"})
    assert ["has sent 1 letters again" in violation for violation in noted.violations] == [True] * is_wrong


@pytest.mark.parametrize("is_redriven", [True, False])
def test_a_damaged_copy_counts_as_sent_and_its_letter_may_be_sent_again(
    noted: Noted, is_redriven: bool
) -> None:
    noted.accept(Task(REDRIVE, letters={LETTER: "h1"}))
    noted.report("done", 1, redriven=1)
    noted.ledger.tasks.copy_damaged(LETTER, "store-0.1", COPY, "h1")
    noted.ledger.tasks.redriven = {LETTER: is_redriven}
    noted.ledger.tasks.check({})
    assert noted.violations == []
    noted.ledger.tasks.copied(LETTER, "store-0.2", COPY._replace(offset=9), "h1")
    assert noted.violations == []
    noted.ledger.tasks.copied(LETTER, "store-0.3", COPY._replace(offset=10), "h1")
    assert "sent again twice" in noted.violations[0]


@pytest.mark.parametrize("is_redriven", [True, False])
def test_a_letter_that_is_shown_as_redriven_and_is_not_or_the_reverse_is_noticed(
    noted: Noted, is_redriven: bool
) -> None:
    noted.ledger.tasks.begin(Task(REDRIVE))
    if not is_redriven:
        noted.ledger.tasks.copied(LETTER, "store-0.1", COPY, "h1")
    noted.ledger.tasks.redriven = {LETTER: is_redriven}
    assert noted.ledger.tasks.shown_as_redriven() == ({LETTER} if is_redriven else set())
    noted.ledger.tasks.check({})
    assert f"is shown with redriven={is_redriven}" in noted.violations[0]


@pytest.mark.parametrize(
    ("state", "total", "outcomes"),
    [("done", 2, {"redriven": 1}), ("running", 0, {"redriven": 1}), ("failed", 1, {"redriven": 1}), ("cancelled", 1, {})],
)  # fmt: skip
def test_wrong_counts_and_ends_are_noticed(
    noted: Noted, state: str, total: int, outcomes: dict[str, int]
) -> None:
    noted.accept(Task(REDRIVE))
    noted.report(state, total, **outcomes)
    assert len(noted.violations) == 1


def test_a_task_that_counts_a_delivered_message_as_cancelled_is_noticed(noted: Noted) -> None:
    noted.delay("hd1")
    noted.delay("hd2")
    noted.accept(Task(CANCEL, key=KEY))
    noted.report("done", 2, cancelled=2)
    noted.ledger.tasks.check({})
    assert noted.violations == []
    noted.ledger.tasks.check({COPY: "hd1"})
    assert "only 1 messages are not delivered" in noted.violations[0]


def test_what_is_sent_while_a_bulk_task_runs_may_be_cancelled(noted: Noted) -> None:
    task = noted.accept(Task(CANCEL, key=KEY))
    noted.delay("hd1")
    noted.ledger.tasks.sending("hd1")
    noted.report("done", 0)
    assert task.ended is not None
    noted.delay("hd2")
    noted.ledger.tasks.sending("hd2")
    assert noted.ledger.delays.required() == {"hd2"}


def test_a_message_that_no_longer_waited_and_is_delivered_later_is_noticed(noted: Noted) -> None:
    noted.ledger.delays.begin("hd1", STORE, TOPIC, Due(0))
    noted.ledger.delays.gone("hd1", Gone({1: 7}, "it was cancelled"))
    noted.ledger.delays.read("hd1", COPY._replace(offset=6), 0)
    assert noted.violations == []
    noted.ledger.delays.read("hd1", COPY, 0)
    assert "although it was cancelled" in noted.violations[0]
