"""Two logs over random lives: appends, rolls, shipments, cuts, retention, power cuts in the middle of anything, changes of the leader. They stay the same."""

from random import Random

import pytest
from replica_disk import Confirms, content, open_log, same, send, ship

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.replication.epochs import EpochTable

LIVES = 60
STEPS = 120
STATES_MAX = 30


class Machine:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.confirms = Confirms()
        self.table = EpochTable()
        self.log = open_log(self.files, self.confirms)

    def restart(self, files: SimulatedFiles) -> None:
        self.files = files
        self.log = open_log(files, self.confirms)
        self.table = self.table.until(self.log.end)


class Life:
    """What is confirmed is durable on both machines: no crash and no cut may touch it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leader, self.follower = Machine(), Machine()
        self.epoch = 1
        self.confirm = 0
        self.begins = 0
        """The highest position at which the log of a leader began."""
        self.leader.table = self.follower.table = EpochTable().with_epoch(1, 0)

    def live(self) -> None:
        kinds = (
            [self.append] * 8 + [self.ship] * 8 + [self.sync] * 6 + [self.crash_follower]
            + [self.crash_follower_in_a_step] + [self.change_leader] + [self.delete_old]
        )  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(kinds)()
            self.check()
        while ship(self.leader.log, self.follower.log, 1000):
            pass
        self.leader.log.sync()
        self.follower.log.sync()
        first = self.first
        assert from_position(content(self.leader.files), first) == from_position(
            content(self.follower.files), first
        )

    def check(self) -> None:
        end = min(self.leader.log.written_end, self.follower.log.written_end)
        assert self.confirm <= end
        assert self.follower.log.min_position <= self.begins
        assert same(self.leader.files, self.follower.files, end, self.first)

    @property
    def first(self) -> int:
        """Where both logs have begun."""
        return max(self.leader.log.min_position, self.follower.log.min_position)

    def delete_old(self) -> None:
        """The leader deletes some of what is confirmed, and the follower as much at most. A power cut may bring a file back."""
        for machine, limit in (
            (self.leader, self.random.randrange(self.confirm + 1)),
            (self.follower, self.begins),
        ):
            machine.log.drop_below(limit)
            if machine is self.leader:
                self.begins = max(self.begins, machine.log.min_position)
            for _ in range(self.random.randrange(len(machine.log.dropped) + 1)):
                machine.log.remove_dropped()

    def append(self) -> None:
        rng = self.random
        bodies = [bytes([rng.randrange(256)]) * rng.randrange(1200) for _ in range(rng.randint(1, 3))]
        send(self.leader.log, *bodies, as_one=rng.random() < 0.3 and sum(map(len, bodies)) < 3000)

    def ship(self) -> None:
        ship(self.leader.log, self.follower.log, self.random.choice((1, 500, 5000)))

    def sync(self) -> None:
        machine = self.random.choice((self.leader, self.follower))
        machine.log.sync()
        self.confirm = max(self.confirm, min(self.leader.log.durable_end, self.follower.log.durable_end))
        machine.log.set_confirm(min(self.confirm, machine.log.durable_end))

    def crash_follower(self) -> None:
        self.power_cut(self.follower)
        self.say_hello()

    def crash_follower_in_a_step(self) -> None:
        """The power fails in the middle of a shipment, a sync or a cut."""
        follower = self.follower
        follower.files.crash_after = self.random.randrange(6)
        try:
            ship(self.leader.log, follower.log, 5000)
            follower.log.sync()
            follower.log.cut_back(max(self.confirm, follower.log.min_position))
        except Crashed:
            pass
        self.power_cut(follower)
        self.say_hello()

    def change_leader(self) -> None:
        """The leader dies, with or without its power; it comes back and follows."""
        old, new = self.leader, self.follower
        self.power_cut(old)
        new.log.sync()
        self.epoch += 1
        new.table = new.table.until(new.log.end).with_epoch(self.epoch, new.log.end)
        self.leader, self.follower = new, old
        self.say_hello()

    def power_cut(self, machine: Machine) -> None:
        durable = machine.log.durable_end
        if self.random.random() < 0.3:
            files = machine.files.killed()
        else:
            files = machine.files.crash_state(STATES_MAX, self.random.randrange(1 << 30))
        machine.restart(files)
        assert machine.log.written_end >= min(durable, self.confirm)

    def say_hello(self) -> None:
        """Cut the follower where the logs part, as its epoch table says."""
        leader, follower = self.leader, self.follower
        common = leader.table.common_end(leader.log.end, follower.table, follower.log.end)
        assert common >= self.confirm
        if common < follower.log.end:
            follower.files.crash_after = self.random.choice((None, self.random.randrange(8)))
            try:
                follower.log.cut_back(common)
            except Crashed:
                self.power_cut(follower)
                self.say_hello()
                return
        follower.files.crash_after = None
        assert follower.log.end == common
        follower.table = leader.table


def from_position(files: dict[str, bytes], first: int) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if int(name) >= first}


@pytest.mark.parametrize("number", range(LIVES))
def test_two_logs_stay_identical(number: int, seed: int) -> None:
    Life(seed + number).live()
