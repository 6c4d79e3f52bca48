"""How an option of the source or of the sink is refused."""


class BadOption(ValueError):
    """An option of the source or of the sink is unknown or its value has no meaning; the text names both and says what is expected."""
