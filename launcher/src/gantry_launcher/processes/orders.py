"""What callers ask of a launcher that runs, beside `status` and `stop`: `restart NAME`, and what replicas need."""

from collections.abc import Sequence
from typing import Any, Protocol

from gantry_launcher.errors import Refused
from gantry_launcher.planning.system_plan import SystemPlan

RESTART = "restart"


class System(Protocol):
    """The processes that run. Names are those of the plan; each call raises Refused for an unknown one, and before the system was ready."""

    def restart(self, name: str) -> int | None:
        """Ask a process to stop in order, and start it again; return its pid before that."""
        ...

    def hold(self, name: str) -> int | None:
        """Ask a process to stop in order, and do not start it again; return its pid before that."""
        ...

    def release(self, name: str) -> int | None:
        """Start a process again that is held; return its pid. One that is not held is left."""
        ...

    def is_running(self, name: str) -> bool:
        """Whether a process of this name runs, or is about to be started."""
        ...

    def use(self, plan: SystemPlan) -> None:
        """Continue with another plan of the same system."""
        ...


class Orders(Protocol):
    """Decides what a system does when it is asked, and when a start is over."""

    def is_settled(self, now: float, /) -> bool:
        """Whether a system whose processes are ready is ready as a whole. Asked in every turn; waits for nothing long."""
        ...

    def obey(self, words: Sequence[str], system: System) -> dict[str, Any]:
        """Do what the words say, and return what to answer. Raises Refused."""
        ...


class Restarts:
    """The orders of a system without replicas."""

    def is_settled(self, _now: float) -> bool:
        """Nothing is left when the processes are ready."""
        return True

    def obey(self, words: Sequence[str], system: System) -> dict[str, Any]:
        """Restart a process in order."""
        if len(words) != 2 or words[0] != RESTART:
            raise Refused(f"the launcher does not know: {' '.join(words)}")
        return {"pid": system.restart(words[1])}
