"""Errors of the launcher, with messages for the user."""

EXIT_FAILED = 1
EXIT_REFUSED = 2
IN_THE_WAY = (FileExistsError, NotADirectoryError)
"""What the system says when a file has the name of a directory."""


class Refused(Exception):
    """The command cannot run as requested; the message says why and what to do, in one line."""

    exit_status = EXIT_REFUSED


class NotReadyInTime(Refused):
    """`up` reached its timeout and stopped everything it had started."""

    exit_status = EXIT_FAILED


class OutputLost(Refused):
    """Stdout is full or gone; the command may have done its work."""

    exit_status = EXIT_FAILED


def why(error: OSError) -> str:
    """Return a message that says why a file or directory cannot be used."""
    if isinstance(error, IN_THE_WAY):
        return "a file of that name is in the way"
    return error.strerror or str(error)
