"""What exists only with access control: without it, its calls get 404 with that reason."""

from typing import Generic, TypeVar

from gateway.http.problems import Problem

T = TypeVar("T")


class Switch(Generic[T]):
    """Something that access control has, or nothing."""

    def __init__(self, content: T | None) -> None:
        """None: access control is off."""
        self._content = content

    def on(self) -> T:
        """Return it. Raise 404 if access control is off."""
        if self._content is None:
            raise Problem(404, "NOT_FOUND", "access control is off: there are no users; set access_key_file")
        return self._content
