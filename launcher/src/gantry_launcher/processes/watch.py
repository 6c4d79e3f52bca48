"""Checks every few seconds whether a process still answers; one that is silent for too long counts as dead.

Any answer counts, also "not ready", "recovering" and a closed connection: only a process that is stopped or spins does
nothing.
"""

import contextlib
import selectors
import socket

from gantry_launcher.planning.health import Check
from gantry_launcher.processes.questions import Question, question_for

ASK_SECONDS = 3.0
STOOD_STILL_SECONDS = 2 * ASK_SECONDS
"""A check later than this means that the launcher or the machine was stopped."""
STARTING_FACTOR = 10
"""A process that is not ready yet has this many times the limit: it may read or sync a large log in one call."""


class Silence:
    """The time for which a process has answered no request. Time in which the launcher did not run does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._asked_at: float | None = None
        self._is_open = False

    def asked(self, now: float) -> None:
        """Add the time since the previous request when it is still unanswered."""
        before, self._asked_at = self._asked_at, now
        if before is not None and self._is_open and now - before <= STOOD_STILL_SECONDS:
            self.seconds += now - before
        self._is_open = True

    def answered(self) -> None:
        """Reset; counting starts at the next request."""
        self.seconds, self._is_open = 0.0, False

    def not_asked(self, now: float) -> None:
        """Record that no request could be sent, so nothing is known."""
        self._asked_at = now
        self.answered()

    def is_due(self, now: float) -> bool:
        """Return whether the next request is due."""
        return self._asked_at is None or now - self._asked_at >= ASK_SECONDS


class Watch:
    """Sends requests to one process without waiting. A request stays open until it is answered, however late."""

    def __init__(self, check: Check, selector: selectors.BaseSelector) -> None:
        self._check, self._selector = check, selector
        self._silence = Silence()
        self._open: set[socket.socket] = set()

    def silent_seconds(self, now: float) -> float:
        """Send a request when one is due; return for how long none was answered."""
        if self._silence.is_due(now):
            if self._ask():
                self._silence.asked(now)
            else:
                self._silence.not_asked(now)
        return self._silence.seconds

    def forget(self) -> None:
        """Reset, for a process that was restarted."""
        self._silence = Silence()
        for connection in list(self._open):
            self._close(connection)

    def _ask(self) -> bool:
        family = socket.AF_INET6 if ":" in self._check.host else socket.AF_INET
        try:
            connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:
            return False
        connection.connect_ex((self._check.host, self._check.port))
        question = question_for(self._check)
        self._open.add(connection)
        self._selector.register(
            connection, selectors.EVENT_WRITE, lambda: self._connected(connection, question)
        )
        return True

    def _connected(self, connection: socket.socket, question: Question) -> None:
        try:
            connection.getpeername()  # fails when nothing listens, also without a request to send
            question.send(connection)
        except OSError:
            self._close(connection)  # the process does not listen
            return
        self._selector.modify(connection, selectors.EVENT_READ, lambda: self._read(connection, question))

    def _read(self, connection: socket.socket, question: Question) -> None:
        with contextlib.suppress(
            OSError
        ):  # a reset is an answer, too: a port that speaks TLS alone resets a plain connection
            if not question.is_answered(connection):
                return
        self._silence.answered()
        for one in list(self._open):
            self._close(one)

    def _close(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()
