"""A process keeps its promises: signals drain it, loops restart, refusals are one line."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PROLOGUE = """
import asyncio, sys
from gantry_chassis.process import run
from gantry_chassis.start_refusal import StartRefused
from gantry_chassis.logs.structured import configure, get_logger
configure("trial")
def say(*words): print(*words, flush=True)
"""


def program(body: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    source = PROLOGUE + textwrap.dedent(body) + '\nrun(main, service="trial")\n'
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", source], stdin=stdin, stdout=pipe, stderr=pipe, text=True)


def test_sigterm_drains_and_ends_with_status_0() -> None:
    process = program("""
        async def main(life):
            say("up")
            await life.stopping.wait()
            say("drained")
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("drained\n", 0)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("with_file", [False, True])
def test_it_runs_without_standard_streams(tmp_path: Path, closed: str, *, with_file: bool) -> None:
    """The event loop would take the number of a closed stream, and the log would write over it."""
    log, ready, drained = tmp_path / "log", tmp_path / "ready", tmp_path / "drained"
    source = f"""
import asyncio
from pathlib import Path
from gantry_chassis.logs.structured import configure, get_logger
from gantry_chassis.machine.descriptors import fill_standard_streams
from gantry_chassis.process import run
fill_standard_streams()
configure("trial", file={str(log if with_file else "")!r})
async def main(life):
    get_logger().info("up")
    Path({str(ready)!r}).touch()
    await life.stopping.wait()
    Path({str(drained)!r}).touch()
run(main, service="trial")
"""
    process = subprocess.Popen(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, source])
    deadline = time.monotonic() + 60
    while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert drained.exists()
    if with_file:
        assert "stopping signal=SIGTERM" in log.read_text()


def test_a_second_signal_ends_it_without_drain() -> None:
    process = program("""
        async def main(life):
            say("up")
            await life.stopping.wait()
            say("draining")
            await asyncio.sleep(60)
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "draining\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT


def test_the_first_signal_lets_a_process_drain_that_stops_by_itself() -> None:
    process = program(
        """
        async def main(life):
            life.stop()
            say("draining")
            await asyncio.to_thread(sys.stdin.readline)
            say("drained")
    """,
        subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "draining\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    out, _ = process.communicate("\n", timeout=60)
    assert (out, process.returncode) == ("drained\n", 0)


def test_it_drains_even_when_nobody_reads_its_log() -> None:
    process = program("""
        async def main(life):
            say("up")
            await life.stopping.wait()
            get_logger().info("into the void")
            say("drained")
    """)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "up\n"
    process.stderr.close()
    process.send_signal(signal.SIGTERM)
    assert process.stdout.read() == "drained\n"
    assert process.wait(10) == 0
    process.stdout.close()


def test_a_loop_that_raises_is_restarted_and_counted() -> None:
    process = program("""
        async def main(life):
            turns = 0
            async def flaky():
                nonlocal turns
                turns += 1
                if turns < 3:
                    raise ValueError("boom")
                life.stop()
            life.supervise("flaky", flaky)
            await life.stopping.wait()
            say(turns, life.restarts["flaky"])
    """)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("3 2\n", 0)
    assert err.count("ValueError: boom") == 2


def test_a_loop_whose_awaited_future_was_cancelled_is_restarted() -> None:
    process = program("""
        async def main(life):
            turns = 0
            async def waits():
                nonlocal turns
                turns += 1
                if turns == 1:
                    answer = asyncio.get_running_loop().create_future()
                    answer.cancel()
                    await answer
                life.stop()
            life.supervise("waits", waits)
            async with asyncio.timeout(30):
                await life.stopping.wait()
            say(turns, life.restarts["waits"])
    """)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("2 1\n", 0)


def test_supervised_loops_are_cancelled_when_main_returns() -> None:
    process = program("""
        async def main(life):
            async def endless():
                try:
                    await asyncio.sleep(600)
                finally:
                    say("ended")
            life.supervise("endless", endless)
            await asyncio.sleep(0.01)
    """)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("ended\n", 0)


def test_a_refused_start_is_one_line_and_status_2() -> None:
    process = program("""
        async def main(life):
            raise StartRefused("port 1 is taken")
    """)
    _, err = process.communicate(timeout=60)
    assert (err, process.returncode) == ("trial: port 1 is taken\n", 2)


def test_an_unexpected_error_is_logged_and_status_1() -> None:
    process = program("""
        async def main(life):
            raise KeyError("boom")
    """)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "KeyError: 'boom'" in err


def test_a_stop_cuts_sleep_short() -> None:
    began = time.monotonic()
    process = program("""
        async def main(life):
            asyncio.get_running_loop().call_later(0.05, life.stop)
            say(await life.sleep(0.001), await life.sleep(60))
    """)
    out, _ = process.communicate(timeout=60)
    assert out == "False True\n"
    assert time.monotonic() - began < 55
