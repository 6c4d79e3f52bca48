"""A text that no repr, log line or traceback shows."""

from __future__ import annotations

import hmac


class HiddenText:
    """Holds a secret text. Only `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "HiddenText(…)"

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, HiddenText):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(errors="replace"), other._text.encode(errors="replace"))

    __hash__ = None  # type: ignore[assignment]  # a secret is no key of a table
