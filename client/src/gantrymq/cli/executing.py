"""Runs a shell command for each message, several at once; does not use the gateway."""

import contextlib
import os
import queue
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from gantrymq.cli.shapes import body_bytes
from gantrymq.errors import GantryError

WORDS_CHARS_MAX = 200
CANNOT_RUN = 127


class Finished(NamedTuple):
    """A command that has ended. `words`: the last line of its standard error, or its exit status."""

    handle: str
    message_id: str
    status: int
    words: str


class Worker:
    """Up to `parallel` commands at once, each in its own process."""

    def __init__(self, command: str, parallel: int) -> None:
        self._command, self._parallel = command, parallel
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="exec")
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._finished: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self._begun = 0
        self._is_stopped = False

    @property
    def room(self) -> int:
        """Return how many more may begin."""
        return self._parallel - self._begun

    def begin(self, message: dict[str, Any]) -> None:
        """Run the command for a message."""
        self._begun += 1
        self._pool.submit(self._run, message)

    def finished(self, wait_seconds: float) -> list[Finished]:
        """Return the commands that have ended, after at most this time; an empty list if none has."""
        try:
            ended = [self._finished.get(timeout=wait_seconds)]
        except queue.Empty:
            return []
        while not self._finished.empty():
            ended.append(self._finished.get())
        self._begun -= len(ended)
        return ended

    def stop(self) -> None:
        """Stop running commands."""
        self._is_stopped = True
        for process in list(self._processes):
            _end(process)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, message: dict[str, Any]) -> None:
        try:
            status, words = self._outcome(message)
        except (OSError, ValueError, GantryError) as error:
            # The process cannot start, an environment variable is invalid, or the body cannot be decompressed.
            status, words = CANNOT_RUN, f"cannot run the command: {error}"
        self._finished.put(Finished(message["receiptHandle"], message["messageId"], status, words))

    def _outcome(self, message: dict[str, Any]) -> tuple[int, str]:
        body = body_bytes(message)
        with subprocess.Popen(  # noqa: S602 - to run the user's own command is what it is for
            self._command, shell=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment(message)},
            process_group=0,  # children of the command end with it
        ) as process:  # fmt: skip
            self._processes.add(process)
            if self._is_stopped:  # it started while the others were stopped
                _end(process)
            try:
                _, said = process.communicate(body)
            finally:
                self._processes.discard(process)
        last = said.decode(errors="replace").strip().rpartition("\n")[2][-WORDS_CHARS_MAX:]
        ended = (
            f"exit status {process.returncode}"
            if process.returncode >= 0
            else f"ended by signal {-process.returncode}"
        )
        return process.returncode, f"{ended}: {last}" if last else ended


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def environment(message: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a command."""
    named = {
        "MESSAGE_ID": message["messageId"], "TOPIC": message["topic"], "TAG": message.get("tag"), "KEYS": " ".join(message["keys"]),
        "BROKER": message["broker"], "QUEUE": message["queueId"], "OFFSET": message["queueOffset"],
        "ATTEMPT": message.get("deliveryAttempt"), "BORN": message["bornTimestamp"],
    }  # fmt: skip
    own = {
        f"GANTRY_PROPERTY_{name}": value
        for name, value in message["properties"].items()
        if "\0" not in value and "=" not in name
    }
    return {f"GANTRY_{name}": str(value) for name, value in named.items() if value is not None} | own
