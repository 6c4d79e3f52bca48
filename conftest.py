"""How every test of the tree is run: which examples hypothesis tries, and how workers share the tests.

A run judges a change, so two runs of one tree see the same examples in the same order. Looking for new ones is a run of its own:
`./gantry test --hypothesis-profile=explore --randomly-seed=N`. Only the steps at which a simulated disk crashes are another sample
in each run: there are too many of them for every run, and a failing test prints its seed.
"""

import contextlib
import gc
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes examples slow, not wrong: time is judged by bench/, never by a test.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED)
settings.register_profile("nightly", UNTIMED, max_examples=2000)
settings.load_profile("same")

SPARK = "spark"
LONG_FIRST = (SPARK, "tests/", "simulation/", "client/", "loadtest/", "launcher/", "services/broker-store/", "services/scheduler/", "services/txn-checker/")  # fmt: skip
"""Folders whose files take long start first, so that the workers end together."""

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""A Java of the tests lives some seconds: the optimizing compiler and a concurrent collector cost more than they save."""
CLASSES_USED = """
from gantry_spark.session import session

spark = session("classes", master="local[2]")
spark.range(9).selectExpr("id % 2 AS two").groupBy("two").count().write.parquet({folder!r})
assert spark.read.parquet({folder!r}).count() == 2
"""
CLASSES_SECONDS_MAX = 120
WAKES_SECONDS = 0.01


def pytest_configure(config: pytest.Config) -> None:
    """Take SIGINT as a terminal's programs do: a background job of a shell ignores it, and so would all that tests start."""
    config.pluginmanager.register(FileTimes())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Collect all tests without the garbage collector. No later collection scans them: they live as long as the run."""
    gc.disable()
    try:
        _rewrite_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _rewrite_share(config: pytest.Config) -> None:
    """Rewrite the asserts of this worker's share of the test files, of which the others find the results.

    In a new tree every worker would rewrite every file, as all begin at once and collect in one order.
    """
    from _pytest.assertion import rewrite  # pytest rewrites a file only when it imports it

    worker = getattr(config, "workerinput", None)
    state = config.stash[rewrite.assertstate_key]
    if worker is None or state.hook is None or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in _test_files(config)[number::count]:
        compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if not compiled.exists():
            compiled.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(SyntaxError):  # the import reports it
                source, code = rewrite._rewrite_test(path, config)  # noqa: SLF001
                rewrite._write_pyc(state, code, source, compiled)  # noqa: SLF001


def _test_files(config: pytest.Config) -> list[Path]:
    """Return the files of the tests that the command line names."""
    named = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
    return sorted(
        {file for path in named for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of long runs; here, as they belong to tests of several parts."""
    group = parser.getgroup("gantry")
    group.addoption(
        "--seed",
        default=None,
        help="seed of kills, power cuts and simulated lives (default: a new one, printed)",
    )
    group.addoption("--kill-cycles", default=20, type=int, help="kill -9 cycles under load (default 20)")
    group.addoption(
        "--power-cuts", default=20, type=int, help="emulated power cuts (marker soak, needs root)"
    )
    group.addoption("--lives", default=20_000, type=int, help="lives of the state oracle (marker soak)")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return what chooses the sample, the kills or the lives of a test: another one in every run, unless --seed gives it."""
    given = request.config.getoption("--seed")
    chosen = int(given) if given is not None else random.SystemRandom().randrange(1 << 31)
    print(f"seed {chosen}: repeat with --seed {chosen}")  # noqa: T201 - shown where the test fails
    return chosen


@pytest.fixture(scope="session")
def quick_java(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let Spark start with a third of the work: its classes come from an archive, which the first run of a tree makes.

    On a machine too busy to make it in time, Spark starts without one.
    """
    import pyspark  # tests without Spark need no Java

    from gantry_spark.spark import jvm

    java = jvm.find()
    key = hashlib.sha256(f"{java} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:16]
    archive = pytestconfig.cache.mkdir("java") / f"{key}.jsa"  # pyright: ignore[reportOptionalMemberAccess]
    if not archive.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            _make_archive(archive, tmp_path_factory.mktemp("java"))
    options = f"{QUICK_JAVA} -XX:SharedArchiveFile={archive}" if archive.exists() else QUICK_JAVA
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", options)
        yield


def _make_archive(archive: Path, folder: Path) -> None:
    _run_spark(folder / "rows", f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={folder / archive.name}")
    moved = archive.with_suffix(f".{os.getpid()}")
    shutil.move(folder / archive.name, moved)
    moved.replace(archive)  # at once: another run may look for it


def _run_spark(folder: Path, options: str) -> None:
    """Run a small program with Spark until its Java, which has the same output, ends too."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", CLASSES_USED.format(folder=str(folder))],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=CLASSES_SECONDS_MAX, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests between workers by file (`--workers` of ./gantry test): fixtures of a module are set up once."""
    from xdist.scheduler import LoadScopeScheduling  # a run in one process needs no xdist

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(min(self.workqueue, key=place_of), last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return ByFile(config, log)


def scope_of(nodeid: str) -> str:
    """Return what one worker runs from begin to end: the file of a test, or all tests with Spark, as a JVM takes a gigabyte."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith("spark/") or "test_spark_" in file else file


def place_of(scope: str) -> int:
    """Return the place of a scope in the order of starts; those of one place keep the order of the collection."""
    return next((place for place, long in enumerate(LONG_FIRST) if scope.startswith(long)), len(LONG_FIRST))


class FileTimes:
    """Which files take longest, and when each worker ends: what the order of starts is judged by. A run without workers has none."""

    SHOWN = 30

    def __init__(self) -> None:
        self.seconds = Counter[str]()
        self.ended: dict[str, float] = {}
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count what a worker reports."""
        if hasattr(report, "node"):
            self.seconds[scope_of(report.nodeid)] += report.duration
            self.ended[report.node.gateway.id] = time.monotonic() - self._began

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the longest files."""
        if self.ended:
            terminalreporter.section(f"{self.SHOWN} longest files, {sum(self.seconds.values()):.0f} s of all")
            for file, seconds in self.seconds.most_common(self.SHOWN):
                terminalreporter.write_line(f"{seconds:7.1f} s {file}")
            for worker, seconds in sorted(self.ended.items()):
                terminalreporter.write_line(f"{worker} ended after {seconds:.1f} s")


@pytest.fixture
def fair_clock() -> Iterator[Callable[[], float]]:
    """Return a clock, in seconds, for bounds that real processes keep. It slows down with the machine.

    It counts how long a thread takes that wakes every 10 ms. What a busy machine adds to that counts little. A process that
    makes others wait slows no clock.
    """
    passed, is_over = 0.0, threading.Event()

    def count() -> None:
        nonlocal passed
        before = time.monotonic()
        while not is_over.wait(WAKES_SECONDS):
            now = time.monotonic()
            passed += min(now - before, 2 * WAKES_SECONDS)
            before = now

    thread = threading.Thread(target=count)
    thread.start()
    yield lambda: passed
    is_over.set()
    thread.join()


@pytest.fixture
def authority() -> Any:
    """Return a new certificate authority of a test; see `gantrymq.cli.certificates`."""
    from gantrymq.cli.certificates import Authority  # few tests need certificates

    return Authority()
