"""Asynchronous replication: which sends the leader's own disk answers, and when."""

from types import SimpleNamespace

import pytest

from broker_store.commit.alone import AloneAnswers
from broker_store.commit.message import Mode


class Sent:
    """An entry."""

    def __init__(self, mode):
        self.mode, self.answers = mode, 0

    def answer(self, _records, code=0):
        assert code == 0
        self.answers += 1


@pytest.fixture
def leader():
    leader = SimpleNamespace(has_lease=True)
    leader.alone = AloneAnswers(None, lambda: leader.has_lease)
    return leader


def test_a_send_is_answered_by_the_sync_of_its_batch_and_no_other(leader):
    first, second = Sent(Mode.ALONE), Sent(Mode.ALONE)
    leader.alone.written(100, [first])
    leader.alone.written(200, [second])
    leader.alone.flushed(199)
    assert (first.answers, second.answers) == (1, 0)
    leader.alone.flushed(200)
    leader.alone.flushed(300)
    assert (first.answers, second.answers) == (1, 1)


def test_under_asynchronous_flush_the_write_answers(leader):
    sent = Sent(Mode.ALONE_WRITTEN)
    leader.alone.written(100, [sent])
    assert sent.answers == 1
    leader.alone.flushed(100)
    assert sent.answers == 1


@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.ASYNC, Mode.EARLY])
def test_what_is_no_plain_send_waits_for_the_group(leader, mode):
    other = Sent(mode)
    leader.alone.written(100, [other])
    leader.alone.flushed(100)
    assert other.answers == 0


@pytest.mark.parametrize("mode", [Mode.ALONE, Mode.ALONE_WRITTEN])
def test_without_its_lease_a_leader_leaves_the_answer_to_the_group(leader, mode):
    sent = Sent(mode)
    leader.has_lease = False
    leader.alone.written(100, [sent])
    leader.alone.flushed(100)
    leader.has_lease = True
    leader.alone.flushed(200)
    assert sent.answers == 0
