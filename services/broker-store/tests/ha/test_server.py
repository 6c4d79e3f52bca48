"""A slave's copy has the bytes of the log, whatever happens between."""

import asyncio
import random
import time
from dataclasses import replace

import pytest
from python_slave import PythonSlave
from sending_side import ScriptedPeer, SendingSide

from broker_store.ha.log_bytes import LogBytes
from broker_store.ha.server import HaServer
from broker_store.ha.slave import HaSettings
from broker_store.log.errors import DamagedRecord, PositionRemoved
from gantry_chassis.machine.addresses import listening_socket
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio
SEGMENT = 1024 * 1024
QUICK = HaSettings(idle_seconds=0.05, silence_seconds=30.0, look_seconds=0.005)


class Refusals:
    """Keeps what was refused."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.descriptors_max = 1 << 20

    def has_descriptor(self, number: int) -> bool:
        return number < self.descriptors_max

    def descriptor_refusal(self) -> str:
        return "no descriptor is left"

    def refused(self, reason: str, _peer: str, message: str) -> None:
        self.seen.append((reason, message))

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.seen]


class Master:
    """A store's log with an HA port."""

    def __init__(self, settings: HaSettings = QUICK, **store: object) -> None:
        self.side = SendingSide(segment_bytes=SEGMENT, **store)
        self.peer = ScriptedPeer()
        self.refusals = Refusals()
        self.server = HaServer(settings, self.refusals, machine().workers(1, "slaves"), time.monotonic)
        self.rng = random.Random(7)
        self.slaves: list[PythonSlave] = []

    async def listen(self) -> None:
        self.port = await self.server.listen(listening_socket, "127.0.0.1", 0)
        self.server.serve(LogBytes(self.side.log))

    async def slave(self, end: int = 0, log: bytes = b"") -> PythonSlave:
        slave = PythonSlave(self.port, end, log)
        self.slaves.append(slave)
        await slave.connect()
        return slave

    async def close(self) -> None:
        self.server.close()
        for slave in self.slaves:
            await slave.leave()

    def fill(self, count: int, size_max: int = 20_000) -> None:
        for _ in range(count):
            self.side.send(self.peer, body=self.rng.randbytes(self.rng.randrange(size_max)))
            self.side.end_turn()
        self.side.flush()

    def bytes(self, begin: int = 0) -> bytes:
        """Read the log from a position to its confirm offset, with the zeros behind blanks."""
        log, parts, at = self.side.log, [], begin
        while at < log.confirm:
            segment = log.segment_at(at)
            size = min(segment.end, log.confirm) - at
            parts.append(segment.file.pread(size, at - segment.start))
            at += size
        return b"".join(parts)


@pytest.fixture
async def masters():
    made: list[Master] = []

    async def make(settings: HaSettings = QUICK, **store: object) -> Master:
        made.append(Master(settings, **store))
        await made[-1].listen()
        return made[-1]

    yield make
    for master in made:
        await master.close()


async def test_an_empty_slave_copies_every_byte_over_all_files(masters):
    master = await masters()
    master.fill(300)
    assert master.side.log.confirm > 2 * SEGMENT
    slave = await master.slave()
    await slave.follow(master.side.log.confirm)
    assert slave.begin == 0
    assert bytes(slave.log) == master.bytes()
    assert max(slave.sizes) <= QUICK.piece_bytes


async def test_a_connected_slave_gets_what_is_written_later(masters):
    master = await masters()
    slave = await master.slave()
    for _ in range(20):
        master.fill(5)
        await slave.follow(master.side.log.confirm)
    assert bytes(slave.log) == master.bytes()


async def test_a_slave_continues_where_its_copy_ends_also_inside_of_a_record(masters):
    master = await masters()
    master.fill(50)
    whole = master.bytes()
    for end in (1, 17, len(whole) // 2, len(whole) - 1, len(whole)):
        slave = await master.slave(end, whole[:end])
        master.fill(1)
        await slave.follow(master.side.log.confirm)
        assert bytes(slave.log) == master.bytes()
        await slave.leave()


async def test_nothing_above_the_confirm_offset_is_sent(masters):
    master = await masters()
    master.fill(3)
    confirmed = master.side.log.confirm
    slave = await master.slave()
    await slave.follow(confirmed)
    master.side.send(master.peer, body=b"x" * 1000)
    master.side.end_turn()
    assert master.side.log.written_end > confirmed
    before = slave.idle_frames
    while slave.idle_frames < before + 3:
        await slave.frame()
    assert slave.end == confirmed
    master.side.flush()
    await slave.follow(master.side.log.confirm)
    assert bytes(slave.log) == master.bytes()


async def test_a_slave_without_work_gets_empty_frames(masters):
    master = await masters()
    slave = await master.slave()
    async with asyncio.timeout(30):
        while slave.idle_frames < 3:
            await slave.frame()
    assert slave.end == master.side.log.min_position == 0


async def test_an_empty_slave_begins_where_the_log_begins_now(masters):
    master = await masters()
    master.fill(200)
    log = master.side.log
    log.drop_first_segment()
    slave = await master.slave()
    await slave.follow(log.confirm)
    assert slave.begin == log.min_position == SEGMENT
    assert bytes(slave.log) == master.bytes(SEGMENT)


async def test_bytes_that_are_not_in_memory_are_read_in_a_thread(masters, monkeypatch):
    master = await masters()
    master.fill(100)
    for segment in master.side.log.segments:
        monkeypatch.setattr(segment.file, "pread_nowait", lambda _size, _position: None)
    slave = await master.slave()
    await slave.follow(master.side.log.confirm)
    assert bytes(slave.log) == master.bytes()


async def test_a_log_that_cannot_be_read_closes_the_slave_and_says_why(masters, monkeypatch):
    master = await masters()
    master.fill(5)

    def fail(_size: int, _position: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(master.side.log.segments[0].file, "pread_nowait", fail)
    slave = await master.slave()
    assert await slave.is_closed()
    ((word, text),) = master.refusals.seen
    assert word == "unreadable"
    assert "Input/output error" in text


@pytest.mark.parametrize(
    ("position", "word"), [(1, "behind"), (1 << 40, "ahead"), ((1 << 63) - 1, "ahead"), (-1, "malformed")]
)
async def test_a_position_that_fits_nothing_closes_the_slave_and_is_logged(masters, position, word):
    master = await masters()
    master.fill(200)
    master.side.log.drop_first_segment()
    slave = await master.slave(position)
    assert await slave.is_closed()
    assert master.refusals.words == [word]
    assert master.server.progress() == []


async def test_a_slave_whose_next_segment_is_deleted_meanwhile_is_closed(masters):
    master = await masters(replace(QUICK, piece_bytes=1000, window_bytes=2000))
    master.fill(200)
    slave = await master.slave()
    await slave.frame()
    master.side.log.drop_first_segment()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await slave.follow(master.side.log.confirm)
    assert master.refusals.words == ["behind"]


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\xff" * 65_536]
)
async def test_a_stranger_is_closed(masters, garbage):
    master = await masters()
    master.fill(2)
    reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
    writer.write(garbage)
    try:
        async with asyncio.timeout(30):
            assert await reader.read() == b""
    except ConnectionError:
        pass
    assert set(master.refusals.words) <= {"malformed", "ahead"}
    assert len(master.refusals.words) == 1
    writer.close()


async def test_a_thousand_connections_leave_the_limit_and_slaves_work_after_them(masters):
    master = await masters(replace(QUICK, silence_seconds=1.0, slaves_max=16))
    master.fill(3)
    writers = [(await asyncio.open_connection("127.0.0.1", master.port))[1] for _ in range(1000)]
    async with asyncio.timeout(60):
        while len(master.refusals.seen) < 984:
            await asyncio.sleep(0.01)
        assert len(master.server.links) <= 16
        while master.server.links:  # nobody of them has reported anything
            await asyncio.sleep(0.01)
    slave = await master.slave()
    await slave.follow(master.side.log.confirm)
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.1)


async def test_a_slave_that_does_not_read_holds_few_bytes(masters):
    master = await masters()
    master.fill(900, 50_000)
    assert master.side.log.confirm > 16 * SEGMENT
    slave = await master.slave()
    for _ in range(50):
        await asyncio.sleep(0.005)
        slave.report(0)
    (link,) = master.server.links
    assert link.slave.sent <= QUICK.window_bytes
    assert link.buffered_bytes < 2 * SEGMENT
    await slave.follow(master.side.log.confirm)
    assert bytes(slave.log) == master.bytes()


async def test_progress_says_what_each_slave_has(masters):
    master = await masters()
    master.fill(20)
    slave = await master.slave()
    end = master.side.log.confirm
    await slave.follow(end)
    async with asyncio.timeout(30):
        while [one.reported for one in master.server.progress()] != [end]:
            await asyncio.sleep(0.01)
    (one,) = master.server.progress()
    host, port = slave.writer.get_extra_info("sockname")
    assert (one.address, one.sent) == (f"{host}:{port}", end)
    await slave.leave()
    async with asyncio.timeout(30):
        while master.server.progress():
            await asyncio.sleep(0.01)


async def test_before_the_store_serves_and_after_its_end_slaves_are_closed(masters):
    master = await masters()
    master.fill(1)
    log, master.server.log = master.server.log, None
    assert await (await master.slave()).is_closed()
    master.server.serve(log)
    slave = await master.slave()
    await slave.follow(master.side.log.confirm)
    master.server.close()
    assert await slave.is_closed()
    assert master.server.links == set()
    with pytest.raises(OSError, match="refused"):
        await PythonSlave(master.port).connect()
    assert master.refusals.seen == []


async def test_a_server_without_slaves_has_nothing_to_do(masters):
    master = await masters()
    slave = await master.slave()
    await slave.frame()
    assert master.server.is_looking
    await slave.leave()
    async with asyncio.timeout(30):
        while master.server.is_looking:
            await asyncio.sleep(0.01)


async def test_without_descriptors_for_connections_a_slave_is_closed(masters):
    master = await masters()
    master.refusals.descriptors_max = 0
    slave = await master.slave()
    assert await slave.is_closed()
    assert master.refusals.words == ["descriptors"]


async def test_pieces_end_where_their_file_or_the_confirmed_log_ends(masters):
    master = await masters()
    master.fill(200)
    log = LogBytes(master.side.log)
    assert len(log.read(SEGMENT - 10, 100)) == 10
    assert len(log.read(log.sendable_end - 10, 100)) == 10
    master.side.log.drop_first_segment()
    with pytest.raises(PositionRemoved):
        log.read(0, 100)
    master.side.log.segments[0].file.truncate(100)
    with pytest.raises(DamagedRecord):
        log.read(SEGMENT + 50, 100)
