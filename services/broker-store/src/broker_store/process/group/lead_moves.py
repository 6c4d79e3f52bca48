"""Whether the lead of a broker can move: the next leader must be in sync, fit to lead, and heard within the lease.

One that is paused or cut off does not campaign, and nobody else does for as long as the grace: the broker would have no leader meanwhile.
"""

from broker_store.process.group.settings import CannotMove
from broker_store.replication.as_leader import Leading


def check_move(leading: Leading, own: str, successor: str, now: int) -> None:
    """Raise CannotMove unless `successor` can lead now; where it is empty, unless any other replica can. `own`: the name of the leader. `now`: in ms."""
    others, heard = sorted(leading.gate.recorded - {own}), leading.heard(now)
    if not others:
        raise CannotMove(
            "no other replica is in sync: start another one, and wait until GET /v1/replication names it among the members"
        )
    if successor:
        _check_named(leading, others, heard, successor)
    elif not heard:
        raise CannotMove(
            f"no other replica was heard within the lease: start one, or wait until one answers; in sync are: {', '.join(others)}"
        )
    elif not leading.fit_successor(now):
        raise CannotMove(
            f"no replica that was heard is fit to lead ({', '.join(heard)}): disks are full, or logs lost records; log files say which"
        )


def _check_named(leading: Leading, others: list[str], heard: list[str], successor: str) -> None:
    if successor not in others:
        raise CannotMove(f"{successor} is not in sync; these are: {', '.join(others)}")
    if not leading.is_fit(successor):
        raise CannotMove(
            f"{successor} is not fit to lead: its disk is full, or its log lost records; its log file says which. Name another replica"
        )
    if successor not in heard:
        named = (
            f": start it, or name another one ({', '.join(heard)})"
            if heard
            else ", and no other one was: start one"
        )
        raise CannotMove(f"{successor} was not heard within the lease{named}")
