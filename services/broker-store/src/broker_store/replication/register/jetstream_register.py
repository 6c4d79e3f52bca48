"""The register in JetStream: one stream per broker group, whose sequences are the versions.

An append names the last sequence of the whole stream. JetStream checks it when it takes the record and again when the record is applied, so
each version is written once. The stream's leader answers reads. A deposed leader that does not know it answers with an older record, never
with one that was not decided.
"""

from broker_store.replication.register.answers import STREAM_EXISTS, Error, Message
from broker_store.replication.register.jetstream_calls import WAITS, JetStreamCalls, Waits
from broker_store.replication.register.lacking import Lacking
from broker_store.replication.register.port import (
    REBUILD,
    KnownVersion,
    Outcome,
    Refused,
    RegisterAway,
    RegisterUnusable,
    Unknown,
    Written,
    check_place,
    outcome_of,
    poll_newer,
)
from broker_store.replication.register.record import MalformedRecord, Registered, decode, encode
from broker_store.replication.register.stream import HISTORY, configuration, differences, name_of, subject_of
from gantry_chassis.nats_connection import NatsRequests

POLL_SECONDS = 0.2


class JetStreamRegister(KnownVersion):
    """The register of one broker group, as one store uses it."""

    def __init__(
        self,
        requests: NatsRequests,
        group: str,
        replicas: int,
        remembered: int,
        waits: Waits = WAITS,
    ) -> None:
        """Take the number of NATS servers that keep the stream (3; 1 for trials), and the version that the store remembers, 0 if none."""
        super().__init__(remembered)
        self._group, self._replicas = group, replicas
        self._calls = JetStreamCalls(requests, name_of(group), subject_of(group), waits)
        self._lacking = Lacking(waits.lack_seconds)
        self._checked = 0

    async def read(self) -> Registered:
        """See `Register.read`."""
        await self._check_stream()
        newest = await self._newest()
        if newest is None:
            raise self._empty()
        return self.accept(newest)

    async def write(self, expected_version: int, new: Registered) -> Outcome:
        """See `Register.write`."""
        if expected_version < 1:
            raise ValueError("only bootstrap makes a first record")
        return await self._append(expected_version, new)

    async def wait_newer(self, version: int, seconds_max: float) -> Registered | None:
        """See `Register.wait_newer`."""
        return await poll_newer(self, version, seconds_max, POLL_SECONDS)

    async def bootstrap(self, first: Registered) -> Outcome:
        """See `Register.bootstrap`."""
        return await self._make(0, first)

    async def rebuild(self, after_version: int, new: Registered) -> Outcome:
        """Make the register again, for an operator, as the stream of an existing group was lost or removed.

        `after_version` is the highest version that a store of the group remembers or promised: what follows is newer than all they know.
        An existing stream is refused, as it may be the right one. Raises RegisterAway, RegisterUnusable.
        """
        if after_version < 1:
            raise ValueError("a register is rebuilt after the highest version that its stores remember")
        return await self._make(after_version, new)

    async def exists(self) -> bool:
        """Say whether there is a stream of that name, whatever it holds. Raises RegisterAway."""
        return await self._calls.exists()

    async def remove(self) -> None:
        """Remove the stream, for an operator: it has lost records, and is made again. Raises RegisterAway."""
        await self._calls.remove()

    async def leader(self) -> str:
        """Return the name of the NATS server that leads the stream, empty if it is not replicated. Raises RegisterAway, RegisterUnusable."""
        return (await self._calls.info()).cluster.leader

    async def move_leader(self, away_from: str) -> str:
        """Move the stream's lead away from a NATS server, and return the server that should have it now.

        A store's leader does so for the server of its own machine: losing that machine then costs no election of NATS. Nothing moves if
        another server leads, or no other one has all records. Raises RegisterAway, RegisterUnusable.
        """
        cluster = (await self._calls.info()).cluster
        others = [
            peer for peer in cluster.replicas if peer.current and not peer.offline and peer.name != away_from
        ]
        if cluster.leader != away_from or not others:
            return cluster.leader
        preferred = min(others, key=lambda peer: peer.lag).name
        answer = await self._calls.step_down(preferred)
        if answer.error is not None:  # servers older than 2.11 take no wish
            answer = await self._calls.step_down(None)
        if answer.error is not None:
            raise RegisterAway(f"the stream's leader stays {away_from}: {answer.error}")
        return preferred

    async def _make(self, after_version: int, new: Registered) -> Outcome:
        check_place(after_version, new, self._group)
        encode(new)
        wanted = configuration(self._group, self._replicas)
        answer = await self._calls.create(
            wanted if after_version == 0 else {**wanted, "first_seq": after_version + 1}
        )
        if answer.error is not None:
            return await self._existing(new, answer.error)
        if answer.state.messages == 0 and answer.state.last_seq != after_version:
            raise self._empty()
        return await self._append(after_version, new)

    async def _existing(self, new: Registered, error: Error) -> Outcome:
        """Return what is there already, where the stream could not be created."""
        if error.err_code != STREAM_EXISTS:
            raise RegisterAway(f"the stream {name_of(self._group)} was not created: {error}")
        await self._check_stream()
        newest = await self._newest()
        if newest is None or newest.version < new.version:
            raise RegisterUnusable(
                f"a stream {name_of(self._group)} without version {new.version} exists: {REBUILD}"
            )
        return Refused(newest)

    async def _append(self, expected_version: int, new: Registered) -> Outcome:
        check_place(expected_version, new, self._group)
        record = encode(new)
        try:
            await self._check_stream()
        except RegisterAway as error:
            return Unknown(str(error))
        try:
            answer = await self._calls.publish(expected_version, record)
        except RegisterAway as error:
            return await self._recognise(new, str(error))
        if answer.error is not None:
            return await self._recognise(new, str(answer.error))
        if answer.seq != new.version:
            raise RegisterUnusable(f"version {new.version} was written at sequence {answer.seq}: {REBUILD}")
        self.learn(answer.seq)
        return Written(answer.seq)

    async def _recognise(self, new: Registered, why: str) -> Outcome:
        """Find out what became of a write whose reply was lost or negative."""
        try:
            newest = await self._newest()
            if newest is None or newest.version < new.version:
                place = None
            elif newest.version == new.version:
                place = newest
            else:
                place = self._decoded(await self._calls.at(new.version))
        except RegisterAway as error:
            return Unknown(f"{why}; then {error}")
        outcome = outcome_of(new, newest, place, HISTORY)
        if newest is not None:
            self.learn(newest.version)
        elif self._known and isinstance(lack := self._empty(), RegisterUnusable):
            raise lack
        return Unknown(f"{why}; {outcome.why}") if isinstance(outcome, Unknown) else outcome

    def _empty(self) -> RegisterAway | RegisterUnusable:
        return self._lacking.error(f"The stream {name_of(self._group)} is empty: {REBUILD}.")

    async def _newest(self) -> Registered | None:
        newest = self._decoded(await self._calls.newest())
        if newest is not None:
            self._lacking.found()
        return newest

    def _decoded(self, message: Message | None) -> Registered | None:
        if message is None:
            return None
        stream = name_of(self._group)
        try:
            record = decode(message.data)
        except MalformedRecord as error:
            raise RegisterUnusable(
                f"record {message.seq} of {stream} is damaged or foreign: {error}; {REBUILD}"
            ) from error
        if record.version != message.seq or record.group != self._group:
            raise RegisterUnusable(
                f"record {message.seq} of {stream} says version {record.version} of {record.group}; {REBUILD}"
            )
        return record

    async def _check_stream(self) -> None:
        """Check the stream's settings, once per connection. Raises RegisterAway, RegisterUnusable."""
        if self._checked and self._checked == self._calls.connections:
            return
        answer = await self._calls.info()
        wrong = differences(self._group, self._replicas, answer.config)
        if wrong:
            raise RegisterUnusable(f"the stream {name_of(self._group)} is no register: {'; '.join(wrong)}")
        self._checked = self._calls.connections
