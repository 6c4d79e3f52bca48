import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker_store.groups.locks.lock_table import LOCK_MS, LockTable

A, B = ("orders", "broker-a", 0), ("orders", "broker-a", 1)


@pytest.fixture
def table():
    return LockTable()


def test_one_client_holds_a_queue_and_may_refresh_it(table):
    assert table.lock("g", "c1", [A, B], 0, 1) == ([A, B], [A, B])
    assert table.lock("g", "c2", [A], 10, 2) == ([], [])
    assert table.lock("g", "c1", [A], 20, 1) == ([A], [])


def test_groups_do_not_share_locks(table):
    table.lock("g", "c1", [A], 0, 1)
    assert table.lock("h", "c2", [A], 0, 2) == ([A], [A])


def test_a_lock_ends_after_more_than_its_time_without_a_refresh(table):
    table.lock("g", "c1", [A], 0, 1)
    assert table.lock("g", "c2", [A], LOCK_MS, 2) == ([], [])
    assert table.lock("g", "c2", [A], LOCK_MS + 1, 2) == ([A], [A])
    assert table.lock("g", "c1", [A], LOCK_MS + 2, 1) == ([], [])


def test_only_the_holder_gives_back(table):
    table.lock("g", "c1", [A], 0, 1)
    assert not table.unlock("g", "c2", [A])
    assert table.unlock("g", "c1", [A, B])
    assert table.size == 0
    assert not table.unlock("none", "c1", [A])


def test_a_client_that_leaves_gives_all_of_its_group_back(table):
    table.lock("g", "c1", [A, B], 0, 1)
    table.lock("h", "c1", [A], 0, 1)
    assert table.unregister("g", "c1")
    assert (table.is_locked("g", 0), table.is_locked("h", 0)) == (False, True)


def test_a_closed_connection_frees_what_was_last_refreshed_over_it(table):
    table.lock("g", "c1", [A, B], 0, 1)
    table.lock("g", "c1", [B], 5, 7)  # the client returned over another connection
    assert table.closed(1, by_client=True)
    assert table.lock("g", "c2", [A, B], 10, 2) == ([A], [A])
    assert not table.closed(99, by_client=True)
    assert not table.closed(7, by_client=False)
    assert table.lock("g", "c3", [B], 20, 3) == ([], [])


def test_ended_locks_are_forgotten_and_do_not_make_a_group_orderly(table):
    table.lock("g", "c1", [A], 0, 1)
    assert table.is_locked("g", LOCK_MS)
    assert not table.is_locked("g", LOCK_MS + 1)
    assert table.expire(LOCK_MS + 1)
    assert table.size == 0


def test_saved_holders_count_as_refreshed_when_they_are_loaded(table):
    table.lock("g", "c1", [A], 0, 1)
    again = LockTable()
    again.load(table.holders(), 1_000_000)
    assert again.lock("g", "c2", [A], 1_000_000 + LOCK_MS, 2) == ([], [])
    assert again.lock("g", "c1", [A], 1_000_001, 5) == ([A], [])


@pytest.mark.parametrize(
    "content", [None, [], {"g": 5}, {"g": [["orders", "b", "zero", "c"]]}, {"g": [["orders"]]}]
)
def test_a_file_of_another_format_holds_no_lock(table, content):
    table.load(content, 0)
    assert table.size == 0


class OneHolder(RuleBasedStateMachine):
    """Whatever clients do and whenever the store restarts, no queue is granted to a second client while a first may hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LockTable()
        self.now_ms = 0
        self.granted: dict[tuple[str, str, int], tuple[str, int]] = {}

    @rule(client=st.sampled_from("xyz"), queues=st.lists(st.sampled_from([A, B]), unique=True))
    def lock(self, client: str, queues: list[tuple[str, str, int]]) -> None:
        held, _ = self.table.lock("g", client, queues, self.now_ms, ord(client))
        for queue in held:
            holder, since_ms = self.granted.get(queue, (client, 0))
            assert holder == client or self.now_ms - since_ms > LOCK_MS
            self.granted[queue] = (client, self.now_ms)

    @rule(client=st.sampled_from("xyz"))
    def leave(self, client: str) -> None:
        self.table.unregister("g", client)
        self.granted = {queue: grant for queue, grant in self.granted.items() if grant[0] != client}

    @rule(ms=st.integers(1, LOCK_MS))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.table.expire(self.now_ms)

    @rule()
    def restart(self) -> None:
        saved, self.table = self.table.holders(), LockTable()
        self.table.load(saved, self.now_ms)

    @rule(client=st.sampled_from("xyz"))
    def close(self, client: str) -> None:
        self.table.closed(ord(client), by_client=True)
        self.granted = {queue: grant for queue, grant in self.granted.items() if grant[0] != client}

    @invariant()
    def the_size_is_the_number_of_locks(self) -> None:
        assert self.table.size == sum(len(locks) for locks in self.table.holders().values())

    @invariant()
    def there_is_at_most_one_lock_for_each_queue(self) -> None:
        assert self.table.size <= 2


TestOneHolder = OneHolder.TestCase
TestOneHolder.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
