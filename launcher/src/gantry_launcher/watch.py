"""Whether a process still answers: asked every few seconds; one that is silent for too long is taken for dead.

Any answer counts, also "not ready" and "recovering", and also that it closes the connection: only a process that stands still or spins does
nothing.
"""

import contextlib
import selectors
import socket

from gantry_launcher.health import QUESTIONS, Check

ASK_SECONDS = 3.0
STOOD_STILL_SECONDS = 2 * ASK_SECONDS
"""When we come back to ask later than this, it was we, or the machine, that stood still."""
STARTING_FACTOR = 10
"""A process that was not ready yet may be silent for so many times as long: it may read or sync a large log in one piece."""


class Silence:
    """How long a process has left every question unanswered. Time in which the one who asks did not run does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._asked_at: float | None = None
        self._is_open = False

    def asked(self, now: float) -> None:
        """Count the time since the question before, when nothing answered it."""
        before, self._asked_at = self._asked_at, now
        if before is not None and self._is_open and now - before <= STOOD_STILL_SECONDS:
            self.seconds += now - before
        self._is_open = True

    def answered(self) -> None:
        """Begin to count at the next question."""
        self.seconds, self._is_open = 0.0, False

    def not_asked(self, now: float) -> None:
        """Try again later: the question could not be asked, so nothing is known."""
        self._asked_at = now
        self.answered()

    def is_due(self, now: float) -> bool:
        """Whether it is time for the next question."""
        return self._asked_at is None or now - self._asked_at >= ASK_SECONDS


class Watch:
    """Asks one process, without ever waiting for it. A question stays open until it is answered, however late."""

    def __init__(self, check: Check, selector: selectors.BaseSelector) -> None:
        self._check, self._selector = check, selector
        self._silence = Silence()
        self._open: set[socket.socket] = set()

    def silent_seconds(self, now: float) -> float:
        """Ask again when it is time; return for how long no question was answered."""
        if self._silence.is_due(now):
            if self._ask():
                self._silence.asked(now)
            else:
                self._silence.not_asked(now)
        return self._silence.seconds

    def forget(self) -> None:
        """Begin anew, for a process that was started again."""
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
        self._open.add(connection)
        self._selector.register(connection, selectors.EVENT_WRITE, lambda: self._connected(connection))
        return True

    def _connected(self, connection: socket.socket) -> None:
        try:
            connection.getpeername()  # fails where nobody listens, also for what asks nothing
            connection.send(QUESTIONS[self._check.kind])
        except OSError:
            self._close(connection)  # it does not listen
            return
        self._selector.modify(connection, selectors.EVENT_READ, lambda: self._read(connection))

    def _read(self, connection: socket.socket) -> None:
        try:
            connection.recv(64)
        except OSError:
            self._close(connection)
            return
        self._silence.answered()
        for one in list(self._open):
            self._close(one)

    def _close(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()
