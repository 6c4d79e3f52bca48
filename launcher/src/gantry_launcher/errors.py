"""What the launcher cannot do, in words for the person who typed the command."""

EXIT_FAILED = 1
EXIT_REFUSED = 2


class Refused(Exception):
    """The command cannot be done as asked; one line that says why and what to do."""

    exit_status = EXIT_REFUSED


class NotReadyInTime(Refused):
    """`up` waited as long as its caller allowed, and stopped what it had started."""

    exit_status = EXIT_FAILED
