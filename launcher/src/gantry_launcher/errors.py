"""Errors of the launcher, with messages for the user."""

EXIT_FAILED = 1
EXIT_REFUSED = 2


class Refused(Exception):
    """The command cannot run as requested; the message says why and what to do, in one line."""

    exit_status = EXIT_REFUSED


class NotReadyInTime(Refused):
    """`up` reached its timeout and stopped everything it had started."""

    exit_status = EXIT_FAILED
