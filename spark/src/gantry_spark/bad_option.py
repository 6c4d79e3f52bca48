"""The error for invalid options of the source and the sink."""


class BadOption(ValueError):
    """An option of the source or of the sink is unknown, or its value is invalid; the text names both and the valid ones."""
