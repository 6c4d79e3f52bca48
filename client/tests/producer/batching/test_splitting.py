import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.messages.batch import decode_batch, encode_batch
from gantrymq import InvalidMessage, Message
from gantrymq.machine import THIS_MACHINE
from gantrymq.producer.batching.batches import batch_items
from gantrymq.producer.batching.splitting import split
from gantrymq.producer.sending.preparing import Preparation
from gantrymq.producer.settings import ProducerSettings

NOW_MS = 1_700_000_000_000
PREPARATION = Preparation(ProducerSettings(), "", THIS_MACHINE)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 120))
def test_parts_keep_the_order_fit_and_are_as_few_as_possible(sizes, bytes_max):
    items = list(enumerate(sizes))
    parts = list(split(items, bytes_max))
    assert [number for part in parts for number in part] == list(range(len(sizes)))
    totals = [sum(sizes[number] for number in part) for part in parts]
    assert all(total <= bytes_max for total in totals)
    firsts = [sizes[part[0]] for part in parts[1:]]
    assert all(total + first > bytes_max for total, first in zip(totals, firsts, strict=False))


def test_a_full_request_ends_the_part():
    messages = [Message("T", bytes([n]) * 400) for n in range(10)]
    parts = list(batch_items(messages, PREPARATION, 1600, NOW_MS))
    assert [len(part) for part, _ in parts] == [3, 3, 3, 1]
    for part, items in parts:
        body = encode_batch(items)
        assert len(body) <= 1600
        assert [item.body for item in decode_batch(body)] == [message.body for message in part]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one"),
        ([Message("T", b"x"), Message("U", b"x")], "number 1 is for topic U"),
        ([Message("T", b"x"), Message("T", b"x", delay_level=3)], "number 1 is delayed"),
        ([Message("T", b"x"), Message("T", b"x", wait_stored=False)], "wait_stored"),
        ([Message("T", b"x"), Message("T", b"")], "at least 1"),
        ([Message("T", b"x" * 2000)], "number 0 takes"),
        ([Message("bad topic", b"x")], "illegal"),
    ],
)
def test_invalid_batch_messages_are_refused_before_sending(messages, words):
    with pytest.raises(InvalidMessage, match=words):
        batch_items(messages, PREPARATION, 1600, NOW_MS)
