"""A text that no repr, log line or traceback shows."""

from __future__ import annotations

import hmac


class HiddenText:
    """Holds a secret text. Only `reveal` and `encoded` return it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def encoded(self) -> bytes:
        """Return other bytes for every other text. Half a surrogate pair has the bytes that UTF-8 would give it, and raises nothing."""
        return self._text.encode(errors="surrogatepass")

    def __repr__(self) -> str:
        return "HiddenText(…)"

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, HiddenText):
            return NotImplemented
        return hmac.compare_digest(self.encoded(), other.encoded())

    __hash__ = None  # type: ignore[assignment]  # a secret is no key of a table
