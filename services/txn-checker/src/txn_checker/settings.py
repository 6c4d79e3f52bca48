"""The txn-checker's settings beyond those of all workers, with default, unit and bounds."""

from typing import Annotated

from msgspec import Meta

from gantry_chassis.settings.worker import Port, WorkerSettings
from txn_checker.check_policy import Policy


class CheckerSettings(WorkerSettings, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, TXN_CHECKER_NAME in the environment, or --set name=value."""

    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 10931
    poll_ms: Annotated[
        int, Meta(ge=20, le=10_000, description="Interval between polls for decided halves.")
    ] = 1000
    transaction_timeout_ms: Annotated[
        int, Meta(ge=0, le=86_400_000, description="Wait before the first check of a half.")
    ] = 6000
    check_interval_ms: Annotated[
        int, Meta(ge=100, le=86_400_000, description="Interval between checks of one half.")
    ] = 30_000
    check_max: Annotated[
        int, Meta(ge=1, le=10_000, description="Unanswered checks after which a half is parked.")
    ] = 15
    retention_hours: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Age at which a half is parked, however many checks it had."),
    ] = 72

    def policy(self) -> Policy:
        """Return the check policy."""
        return Policy(
            self.transaction_timeout_ms,
            self.check_interval_ms,
            self.check_max,
            self.retention_hours * 3_600_000,
        )
