"""Many refusals do not fill the log, and are counted."""

from structlog.testing import capture_logs

from gantry_chassis.peers.peer_log import LINES_PER_SECOND, PeerLog


def test_many_refusals_are_a_few_lines_a_second_and_a_count() -> None:
    now = 100.0
    log = PeerLog(lambda: now)
    with capture_logs() as lines:
        for number in range(LINES_PER_SECOND + 7):
            log(f"1.2.3.4:{number}", "why")
        now = 101.0
        log("1.2.3.4:99", "again")
    assert len(lines) == LINES_PER_SECOND + 1
    assert (lines[0]["peer"], lines[0]["reason"], lines[0]["log_level"]) == ("1.2.3.4:0", "why", "warning")
    assert (lines[-1]["peer"], lines[-1]["others_before"]) == ("1.2.3.4:99", 7)
