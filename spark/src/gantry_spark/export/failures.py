"""Unsuccessful ends of an export: each is one line for the user."""


class Refused(Exception):
    """The request cannot be carried out; nothing was changed. Exit status 2."""


class Failed(Exception):
    """A run failed; committed work stays, and a rerun continues from there. Exit status 1."""
