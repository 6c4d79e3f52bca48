"""Pauses between reads make no message late and shrink after short delays."""

from schedule_entries import entry

from scheduler.filling.reading_pause import DELAY_PER_PAUSE, PAUSE_SECONDS_MAX, ReadingPause


def test_a_level_pauses_by_its_delay_up_to_a_maximum():
    assert ReadingPause(200).seconds == 0.2 / DELAY_PER_PAUSE
    assert ReadingPause(3_600_000).seconds == PAUSE_SECONDS_MAX
    assert ReadingPause(10).seconds == 0.0


def test_a_message_due_at_once_ends_the_pauses_of_the_timer_queue():
    pause = ReadingPause(None)
    for _ in range(10):
        pause.read([entry(1, 5000), entry(2, 3000)], 1000)
    assert pause.seconds == PAUSE_SECONDS_MAX
    pause.read([entry(3, 900), entry(4, 9000)], 1000)
    assert pause.seconds == 0.0


def test_pauses_grow_step_by_step_up_to_the_shortest_delay_seen():
    pause = ReadingPause(None)
    seen = []
    for _ in range(8):
        pause.read([entry(1, 600)], 100)
        seen.append(pause.seconds)
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] == 0.5 / DELAY_PER_PAUSE
    pause.read([], 100)
    assert pause.seconds == seen[-1]
