import asyncio

import msgspec
import pytest
from sending_side import ScriptedPeer

from broker_store.groups.locks.lock_file import LockFile
from broker_store.groups.locks.lock_handler import QueueLocks
from broker_store.log.files.simulated_files import SimulatedFiles
from gantry_chassis.machine.environment import machine
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder

pytestmark = pytest.mark.anyio
WAIT_TURNS = 6000
FILE = "/store/gantry/locks"


class Broker:
    """Locks over a simulated disk."""

    def __init__(self, files: SimulatedFiles | None = None) -> None:
        self.files = files or SimulatedFiles()
        self.now_ms = 1000
        self.locks = QueueLocks(
            LockFile(self.files, FILE), lambda: self.now_ms, machine().workers(1, "locks")
        )

    def send(self, peer: ScriptedPeer, code: int, client: str, *queues: int, group: str = "g") -> None:
        body = {
            "clientId": client,
            "consumerGroup": group,
            "mqSet": [{"brokerName": "broker-a", "queueId": queue, "topic": "orders"} for queue in queues],
            "onlyThisBroker": False,
        }
        command = decode_command(
            FrameDecoder().receive(encode_request(code, 1, None, msgspec.json.encode(body)))[0]
        )
        reply = self.locks.commands()[code][1](peer, command)
        if reply is not None:
            peer.send(reply)

    async def lock(self, peer: ScriptedPeer, client: str, *queues: int, group: str = "g") -> list[int]:
        before = len(peer.answers)
        self.send(peer, RequestCode.LOCK_BATCH_MQ, client, *queues, group=group)
        for _ in range(WAIT_TURNS):
            if len(peer.answers) > before:
                answer = peer.answers[-1]
                assert answer.code == 0, answer.remark
                return [queue["queueId"] for queue in msgspec.json.decode(answer.body)["lockOKMQSet"]]
            await asyncio.sleep(0.005)
        raise AssertionError("no answer")


@pytest.fixture
async def broker():
    broker = Broker()
    yield broker
    await broker.locks.close()


async def test_the_answer_names_the_queues_as_the_client_wrote_them(broker):
    peer = ScriptedPeer()
    broker.send(peer, RequestCode.LOCK_BATCH_MQ, "c1", 0)
    assert await broker.lock(ScriptedPeer(port=2), "c2", 0, 1) == [1]
    assert peer.answers[0].body == b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"orders"}]}'


async def test_a_new_holder_is_answered_only_when_a_restart_would_know_it(broker):
    peer = ScriptedPeer()
    broker.send(peer, RequestCode.LOCK_BATCH_MQ, "c1", 0)
    assert peer.answers == []
    assert await broker.lock(peer, "c1", 0) == [0]
    again = Broker(broker.files)
    assert await again.lock(ScriptedPeer(), "c2", 0, 1) == [1]
    assert await again.lock(ScriptedPeer(), "c1", 0) == [0]
    again.now_ms += 60_001
    assert await again.lock(ScriptedPeer(), "c2", 0) == [0]
    await again.locks.close()


async def test_a_refresh_is_answered_at_once_and_writes_nothing(broker):
    peer = ScriptedPeer()
    await broker.lock(peer, "c1", 0)
    content = [broker.files.read_bytes(f"{FILE}.{turn}") for turn in (0, 1)]
    broker.now_ms += 20_000
    broker.send(peer, RequestCode.LOCK_BATCH_MQ, "c1", 0)
    assert len(peer.answers) == 2
    assert [broker.files.read_bytes(f"{FILE}.{turn}") for turn in (0, 1)] == content


async def test_a_queue_given_back_goes_to_the_next(broker):
    peer = ScriptedPeer()
    await broker.lock(peer, "c1", 0, 1)
    broker.send(peer, RequestCode.UNLOCK_BATCH_MQ, "c2", 0)
    broker.send(peer, RequestCode.UNLOCK_BATCH_MQ, "c1", 1)
    assert [answer.code for answer in peer.answers[1:]] == [0, 0]
    assert await broker.lock(peer, "c2", 0, 1) == [1]


@pytest.mark.parametrize("closed_by_client", [True, False])
async def test_a_connection_frees_its_queues_only_when_its_client_closed_it(broker, closed_by_client):
    peer = ScriptedPeer(port=5)
    await broker.lock(peer, "c1", 0)
    peer.closed_by_client = closed_by_client
    broker.locks.closed(peer)
    assert await broker.lock(ScriptedPeer(port=6), "c2", 0) == ([0] if closed_by_client else [])


async def test_a_client_that_unregisters_frees_its_queues(broker):
    await broker.lock(ScriptedPeer(), "c1", 0)
    assert broker.locks.is_orderly("g")
    broker.locks.unregistered("g", "c1")
    assert not broker.locks.is_orderly("g")
    assert await broker.lock(ScriptedPeer(), "c2", 0) == [0]


async def test_a_lock_that_cannot_be_saved_is_not_granted(broker):
    peer = ScriptedPeer()

    def fail(_content: bytes) -> None:
        raise OSError(28, "No space left on device")

    broker.locks._saver._store = fail
    broker.send(peer, RequestCode.LOCK_BATCH_MQ, "c1", 0)
    for _ in range(WAIT_TURNS):
        if peer.answers:
            break
        await asyncio.sleep(0.005)
    assert peer.answers[0].code == 1
    assert "could not be saved" in peer.answers[0].remark
    assert not broker.locks.is_orderly("g")
    broker.locks._saver._store = lambda _content: None
    assert await broker.lock(peer, "c2", 0) == [0]


async def test_a_lock_that_ended_while_it_was_saved_is_not_granted(broker):
    first, second = ScriptedPeer(port=5), ScriptedPeer(port=6)
    broker.send(first, RequestCode.LOCK_BATCH_MQ, "c1", 0)
    broker.now_ms += 60_001
    assert await broker.lock(second, "c2", 0) == [0]
    assert first.answers[0].body == b'{"lockOKMQSet":[]}'


async def test_a_request_without_a_client_or_a_group_is_refused(broker):
    with pytest.raises(WireError):
        broker.send(ScriptedPeer(), RequestCode.LOCK_BATCH_MQ, "", 0)
    with pytest.raises(WireError):
        broker.send(ScriptedPeer(), RequestCode.LOCK_BATCH_MQ, "c1", 0, group="")


async def test_many_locks_are_one_write(broker):
    writes: list[int] = []
    store = broker.locks._saver._store

    def counted(content: bytes) -> None:
        writes.append(len(content))
        store(content)

    broker.locks._saver._store = counted
    peers = [ScriptedPeer(port=number + 1) for number in range(50)]
    for number, peer in enumerate(peers):
        broker.send(peer, RequestCode.LOCK_BATCH_MQ, f"c{number}", number)
    for _ in range(WAIT_TURNS):
        if all(peer.answers for peer in peers):
            break
        await asyncio.sleep(0.005)
    assert all(peer.answers[0].code == 0 for peer in peers)
    assert len(writes) <= 2
