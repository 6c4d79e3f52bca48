"""`replicas add` and `replicas remove`: a running broker gets one more replica, or loses one."""

from gantry_launcher.commands.running import LeadCameBack, Rolling, Running, StepFailed, changing
from gantry_launcher.errors import Refused
from gantry_launcher.options import ReplicasOptions
from gantry_launcher.output.terminal import say, write_out
from gantry_launcher.planning.groups import Said, leader_of, obstacles
from gantry_launcher.planning.replicas import REPLICAS_MIN
from gantry_launcher.serving.group_orders import ADD, FORGET, HOLD, KEEP, PART, SETTLE
from gantry_launcher.serving.replica_record import SINGLE


def change_replicas(options: ReplicasOptions) -> int:
    """Add or remove a replica. Raises Refused, and has changed nothing then, or StepFailed."""
    running = Running(options.data, options.timeout_seconds, say)
    with changing(options.data):
        if not running.replicas(options.broker):
            raise Refused(f"{options.broker} has no replicas: {SINGLE}. Start a new system with --replicas")
        if options.name:
            _remove(running, options.broker, options.name)
        else:
            _add(running, options.broker)
    return 0


def _add(running: Running, broker: str) -> None:
    """Start a replica with a new name, then restart the others under the new list: a leader takes no replica that its settings lack.

    The leader of two hands over to one that is alone until the first is back. So `min_in_sync` stays what it was until all are in sync.
    """
    said = _in_sync_and_known(running, broker)
    leader = leader_of(said)
    assert leader is not None
    leading, count = said[leader], len(said)
    assert leading is not None
    needed = leading.min_in_sync if count - 1 < default_min(count + 1) else 0
    name = running.order(ADD, broker, str(needed))["done"]["name"]
    say(f"{broker}: {name} starts, with an empty log; the others learn of it by a restart")
    running.remedy = (
        f"{name} was added, and another `replicas add` would add one more: ./gantry restart --rolling takes it in, "
        f"./gantry replicas remove {broker} {name} takes it away"
    )
    Rolling(running, broker, but=[name]).roll()
    if needed:
        say(f"{broker}: they restart once more, for the min_in_sync of {count + 1} replicas")
        running.order(SETTLE, broker)
        Rolling(running, broker).roll()
    write_out(f"{broker} has the replica {name}, and all replicas are in sync\n")


def _in_sync_and_known(running: Running, broker: str) -> Said:
    """Wait until all replicas are in sync; return what they say. Raises Refused where an earlier command has not taken one in, or StepFailed."""
    said = running.wait_in_sync(broker)
    unknown = obstacles(said, with_unknown=True)
    if unknown:
        raise Refused(
            f"{broker}: {', '.join(unknown)} was added and is not taken in yet; ./gantry restart --rolling does that"
        )
    return said


def _remove(running: Running, broker: str, name: str) -> None:
    """Move the lead away, restart the other followers under the new list, stop the replica, then let the leader restart, too.

    In this order the set has enough members for the leader's `min_in_sync` at each moment.
    """
    names = running.replicas(broker)
    if name not in names:
        raise Refused(f"{broker} has no replica {name}; there are {', '.join(names)}")
    running.order(SETTLE, broker)  # what an interrupted change left
    if running.bring_back(broker, running.said(broker)):
        running.wait_in_sync(broker, [name])
    _refuse_removal(running, broker, name)
    if leader_of(running.wait_in_sync(broker, [name])) == name:
        say(f"{broker}: {name} leads and hands over first")
        running.restart(names[name])
        if leader_of(running.wait_in_sync(broker)) == name:
            raise StepFailed(f"{broker}: {name} leads again; repeat the command")
    running.order(PART, broker, name)
    try:
        rolling = Rolling(running, broker, leaving=name)
        rolling.roll_followers()
        say(f"{broker}: {name} stops")
        running.order(HOLD, broker, name)
        running.wait(broker, lambda: _left(running, broker, name))
        store = running.order(FORGET, broker, name)["done"]["store"]
    except Refused as error:
        running.order(KEEP, broker, name)
        if isinstance(error, LeadCameBack):
            running.wait_in_sync(broker)
        raise
    say(f"{broker}: {name} is out of the set")
    rolling.roll()
    write_out(
        f"{broker} has the replicas {', '.join(running.replicas(broker))}; {store} is not used any more and may be deleted\n"
    )


def default_min(replicas: int) -> int:
    """Return the `min_in_sync` of a store whose settings name so many replicas, and no number."""
    return (replicas + 1) // 2


def _refuse_removal(running: Running, broker: str, name: str) -> None:
    """Raise Refused where a message could be lost, or sends would be refused, without this replica."""
    said = running.said(broker)
    leader = leader_of(said)
    leading = said[leader] if leader is not None else None
    if leading is None:
        raise Refused(f"{broker}: no replica leads; wait until one does")
    if len(said) <= REPLICAS_MIN:
        raise Refused(f"{broker} has {len(said)} replicas, and needs so many: add one first")
    away = [one for one in said if one != name and one not in leading.members]
    if away:
        raise Refused(f"{broker}: {', '.join(away)} is not in sync: wait until it is, then remove {name}")
    left = len(said) - 1
    is_default = leading.min_in_sync == default_min(len(said))
    needed = default_min(left) if is_default else leading.min_in_sync
    if left < needed:
        raise Refused(f"{broker}: min_in_sync={needed} needs so many replicas, and {left} would be left")


def _left(running: Running, broker: str, name: str) -> tuple[str, object]:
    """Return what is missing until a replica that stops has left the set."""
    if running.process(running.replicas(broker)[name])["pid"] is not None:
        return f"{name} has not stopped yet", 0
    said = running.said(broker)
    leader = leader_of(said)
    leading = said[leader] if leader is not None else None
    if leading is None:
        return "no replica leads", 1
    if name in leading.members:
        return f"{name} is still in the set", 1
    return ("" if leading.accepts_sends else f"{leader} accepts no sends yet"), 2
