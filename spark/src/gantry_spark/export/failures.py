"""How an export ends without success: each is one line for the person who typed the command."""


class Refused(Exception):
    """What was asked for cannot be done as it is; nothing was changed. Exit status 2."""


class Failed(Exception):
    """A run did not get through; what was committed before stays, and a rerun goes on from there. Exit status 1."""
