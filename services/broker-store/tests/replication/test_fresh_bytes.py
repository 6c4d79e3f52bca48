"""The newest bytes in memory: pieces without a gap, bounded, gathered up to a blank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.replication.fresh_bytes import FreshBytes, Piece


def filled(*sizes, bytes_max=1000):
    fresh, position = FreshBytes(bytes_max, 4096), 0
    for size in sizes:
        fresh.add(Piece(position, bytes([size]) * size, position + size))
        position += size
    return fresh


def test_pieces_are_gathered_up_to_the_bound():
    fresh = filled(10, 20, 30, 40)
    assert fresh.gather(10, 50) == Piece(10, bytes([20]) * 20 + bytes([30]) * 30, 60)
    assert fresh.gather(10, 49) == Piece(10, bytes([20]) * 20, 30)
    assert fresh.gather(10, 1) == Piece(10, bytes([20]) * 20, 30)
    assert fresh.gather(0, 1000).end == 100


@pytest.mark.parametrize("position", [-1, 5, 100, 1000])
def test_nothing_is_gathered_where_no_piece_begins(position):
    assert filled(10, 90).gather(position, 1000) is None


def test_nothing_is_gathered_behind_a_blank():
    fresh = FreshBytes(1000, 4096)
    fresh.add(Piece(0, b"a" * 10, 10))
    fresh.add(Piece(10, b"blank", 4096))
    fresh.add(Piece(4096, b"b", 4097))
    assert fresh.gather(0, 1000) == Piece(0, b"a" * 10 + b"blank", 4096)
    assert fresh.gather(4096, 1000) == Piece(4096, b"b", 4097)


def test_nothing_is_gathered_behind_a_blank_without_unused_bytes():
    fresh = FreshBytes(10_000, 4096)
    fresh.add(Piece(0, b"a" * 4096, 4096))
    fresh.add(Piece(4096, b"b", 4097))
    assert fresh.gather(0, 10_000).end == 4096


def test_a_gap_forgets_what_lies_before_it():
    fresh = filled(10, 10)
    fresh.add(Piece(50, b"x", 51))
    assert fresh.gather(0, 1000) is None
    assert (fresh.size, fresh.gather(50, 1000)) == (1, Piece(50, b"x", 51))


@given(st.lists(st.integers(1, 90), max_size=40), st.integers(1, 200))
def test_the_newest_pieces_are_kept_within_the_bound(sizes, bytes_max):
    fresh = filled(*sizes, bytes_max=bytes_max)
    assert fresh.size <= bytes_max
    end, kept = sum(sizes), 0
    for size in reversed(sizes):
        if kept + size > bytes_max:
            assert fresh.gather(end - kept - size, 1) is None
            break
        kept += size
        assert fresh.gather(end - kept, 1).data == bytes([size]) * size
