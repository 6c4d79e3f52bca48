"""What the launcher cannot do, in words for the person who typed the command."""

EXIT_REFUSED = 2


class Refused(Exception):
    """The command cannot be done as asked; one line that says why and what to do. Exit status 2."""
