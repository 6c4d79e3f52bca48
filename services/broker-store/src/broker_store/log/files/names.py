"""Names of the log's files: the position of their first byte, in 20 digits. Pure."""

_NAME_DIGITS = 20


def file_name(position: int) -> str:
    """Return the name of the file that starts at this position: 20 digits."""
    return f"{position:0{_NAME_DIGITS}d}"


def parse_file_name(name: str) -> int | None:
    """Return the position in a file name, None for a foreign file."""
    return int(name) if len(name) == _NAME_DIGITS and name.isdecimal() else None
