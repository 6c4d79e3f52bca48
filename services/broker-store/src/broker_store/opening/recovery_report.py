"""Logs what recovery finds in the log."""

from broker_store.log.recovery.recovery import Cut, Hole, Recovered
from gantry_chassis.logs.structured import get_logger

_log = get_logger()


def report(event: Hole | Cut | Recovered) -> None:
    """Log one event."""
    if isinstance(event, Hole):
        _log.error(
            "damaged bytes in the log are skipped",
            start=event.start,
            end=event.end,
            reason=event.fault,
            holes=event.units,
        )
    elif isinstance(event, Cut):
        _log.warning(
            "unconfirmed tail of the log cut", position=event.position, bytes=event.size, reason=event.fault
        )
    else:
        _log.info("log recovered", start=event.start, end=event.end, holes=event.holes)
