"""What an event loop can do and the simulation cannot: a use of it fails with its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class NotSimulated(NotImplementedError):
    """The product used a part of asyncio that the simulation does not have. The message names it."""


class BareLoop(asyncio.AbstractEventLoop):
    """An event loop whose every method raises NotSimulated. Subclasses override what they have."""


def _refusing(name: str) -> Callable[..., object]:
    def refuse(*_arguments: object, **_options: object) -> object:
        raise NotSimulated(f"the simulated event loop has no {name}")

    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("__"):
        setattr(BareLoop, _name, _refusing(_name))
