"""What the group commit says when it cannot store: surely not, or nobody knows."""

from broker_store.log.errors import DiskFull, LogError, NoDescriptorLeft
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


def no_room(error: LogError) -> RefusedRequest:
    """Surely not stored, because of what the log said when it was asked for room."""
    if isinstance(error, NoDescriptorLeft):
        return no_descriptor_left()
    return disk_full() if isinstance(error, DiskFull) else stopped(str(error))


def disk_full() -> RefusedRequest:
    """Surely not stored: there is no room."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the disk of this broker is full: nothing was stored, try another broker or free space",
        {"gantryCode": "DISK_FULL"},
    )


def no_descriptor_left() -> RefusedRequest:
    """Surely not stored: the next segment could not be opened; a moment later it may."""
    return RefusedRequest(
        ResponseCode.SYSTEM_BUSY,
        "this broker has too many files open to open its next segment: nothing was stored, try again; "
        "raise its limit of open files (ulimit -n)",
    )


def stopped(reason: str) -> RefusedRequest:
    """Surely not stored: the disk failed earlier."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"this store is stopped ({reason}): nothing was stored, restart it to have its log checked",
        {"gantryCode": "STORE_STOPPED"},
    )


def unknown() -> RefusedRequest:
    """Perhaps stored: written, but the flush failed."""
    return RefusedRequest(
        ResponseCode.SYSTEM_ERROR,
        "the message was written but its flush failed: whether it is stored is unknown until the store was restarted",
        {"gantryCode": "RESULT_UNKNOWN"},
    )
