"""Configuration text, one `key=value` per line: broker.conf files and the bodies of codes 25, 26, 318 and 319."""

from __future__ import annotations

from gantry_wire.errors import MalformedBody

_COMMENT = ("#", "!")


def parse_config_text(text: bytes | str) -> dict[str, str]:
    """Return the settings of a text. Skips blank lines and comments (# or !). The last of equal keys wins.

    Raises MalformedBody with the number of the first line that is not `key=value`.
    """
    if not isinstance(text, str):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise MalformedBody("the configuration is not UTF-8") from error
    settings: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith(_COMMENT):
            continue
        key, separator, value = content.partition("=")
        if not separator or not key.strip():
            raise MalformedBody(f"line {number} of the configuration is not key=value: {content[:64]!r}")
        settings[key.strip()] = value.strip()
    return settings


def format_config_text(settings: dict[str, str]) -> bytes:
    """Return settings as text, in the given order. Raises MalformedBody if a key or value would not read back."""
    lines: list[str] = []
    for key, value in settings.items():
        if key != key.strip() or not key or "=" in key or "\n" in key + value or key.startswith(_COMMENT):
            raise MalformedBody(f"the setting {key[:64]!r} cannot be written as one line")
        lines.append(f"{key}={value}\n")
    return "".join(lines).encode()
