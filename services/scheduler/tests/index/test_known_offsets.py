"""Known offsets are those decided or with a row. Reading skips long runs of them."""

import random

from gantry_wire.limits import PULL_MESSAGES_MAX
from scheduler.index.known_offsets import SKIP_MIN, KnownOffsets, QueueState, compare


def ranges_of(offsets):
    found = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def test_known_offsets_are_decided_or_have_a_row_and_decided_rows_are_dead():
    for seed in range(300):
        rng = random.Random(seed)
        end = rng.randint(1, 40)
        cursor = rng.randint(0, end)
        share = rng.random()
        decided = {n for n in range(cursor + 1, end) if rng.random() < share}
        rows = sorted(n for n in range(end) if rng.random() < 0.6)
        compared = compare(rows, QueueState(cursor, end, ranges_of(decided)))
        assert [n for n in range(end) if QueueState(cursor, end, ranges_of(decided)).is_settled(n)] == [
            n for n in range(end) if n < cursor or n in decided
        ]
        alive = [n for n in rows if n >= cursor and n not in decided]
        assert compared.known == ranges_of(decided.union(alive)), seed
        assert compared.dead == [n for n in rows if n not in alive], seed
        assert (compared.first, compared.last) == ((alive[0], alive[-1]) if alive else (-1, -1)), seed


def test_rows_past_the_queue_end_or_repeated_belong_to_another_log():
    assert compare([1, 5], QueueState(0, 5, [])) is None
    assert compare([1, 1], QueueState(0, 5, [])) is None
    assert compare([4], QueueState(0, 5, [])) is not None


def test_reading_skips_long_runs_and_reads_through_short_ones():
    long = KnownOffsets([(0, 1000), (1010, 1020), (1100, 5000), (5001, 5001 + SKIP_MIN)])
    assert long.next_range(0) == (1000, 100)
    assert long.next_range(1005) == (1005, 95)
    assert long.next_range(1100) == (5000, 1)
    assert long.next_range(5001) == (5001 + SKIP_MIN, PULL_MESSAGES_MAX)
    assert long.next_range(9000) == (9000, PULL_MESSAGES_MAX)
    assert KnownOffsets([]).next_range(7) == (7, PULL_MESSAGES_MAX)


def test_each_unknown_offset_is_read_once_with_few_known_ones():
    for seed in range(100):
        rng = random.Random(seed)
        known, at = [], 0
        for _ in range(20):
            first = at + rng.randint(1, 200)
            at = first + rng.randint(1, 300)
            known.append((first, at))
        end, offset, read = at + 50, 0, []
        ranges = KnownOffsets(known)
        while (offset := ranges.next_range(offset)[0]) < end:
            count = ranges.next_range(offset)[1]
            read += range(offset, min(offset + count, end))
            offset += count
        left = [n for n in read if not ranges.holds(n)]
        assert left == [n for n in range(end) if not any(a <= n < b for a, b in known)]
        assert len(read) - len(left) < 20 * SKIP_MIN
