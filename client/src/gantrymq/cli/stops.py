"""The end of a command: exit statuses, and the exception that carries one with a message."""

DONE, FAILED, WRONG_USE, NOT_FOUND, UNREACHABLE = 0, 1, 2, 3, 4
INTERRUPTED = 130


class Stop(Exception):
    """Ends the command: one line that says what happened and what to do, and the exit status."""

    def __init__(self, words: str, status: int = FAILED) -> None:
        super().__init__(words)
        self.words: str = words
        self.status: int = status


def status_of(http_status: int) -> int:
    """Return the exit status for an HTTP status."""
    if http_status == 404:
        return NOT_FOUND
    if http_status in {400, 413, 415, 422}:
        return WRONG_USE
    return UNREACHABLE if http_status in {503, 504} else FAILED
