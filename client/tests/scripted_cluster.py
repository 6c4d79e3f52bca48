"""A nameserver and brokers in this process with scripted answers, for tests of the client's reactions."""

import asyncio
import contextlib

import msgspec

from gantry_link.serving.server import RemotingServer
from gantry_wire.bodies.cluster import BrokerData, QueueData, TopicRouteData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response

STORED = "stored"
SILENT = "silent"
CLOSE = "close"
NOT_LEADER = "not leader"
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


class Broker:
    """Answers sends with `outcomes` one after the other, the last one for ever: STORED, SILENT, CLOSE or a response code."""

    def __init__(self, name, *outcomes):
        self.name, self.outcomes = name, list(outcomes or (STORED,))
        self.sends, self.others, self.peers = [], [], []
        self.raw = []
        self.address = ""
        self.addresses = None
        """Addresses by broker id, for a broker with replicas."""
        self.message_id = "7F00000100002A9F0000000000000000"

    def __call__(self, peer, frame):
        command = decode_command(frame)
        if command.is_response:
            return
        self.raw.append((msgspec.json.decode(frame.header).get("extFields") or {}, frame.body))
        if peer not in self.peers:
            self.peers.append(peer)
        if command.code not in SENDS:
            self.others.append(command)
            if not command.is_oneway:
                peer.send(encode_response(0, command.opaque))
            return
        self.sends.append(command)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if command.is_oneway or outcome == SILENT:
            return
        if outcome == CLOSE:
            peer.close()
        elif outcome == NOT_LEADER:
            peer.send(encode_response(14, command.opaque, {"gantryCode": "NOT_LEADER"}, b"", "another leads"))
        elif outcome == STORED or outcome in (10, 11, 12):
            code = 0 if outcome == STORED else outcome
            fields = {
                "msgId": self.message_id,
                "queueId": command.ext["e"],
                "queueOffset": "7",
            }
            peer.send(encode_response(code, command.opaque, fields))
        else:
            peer.send(encode_response(outcome, command.opaque, None, b"", "as the test wants"))

    def codes(self):
        """The other requests that came."""
        return [command.code for command in self.others]

    def push(self, code, fields, body=b""):
        """Send a one-way request to every connected client."""
        for peer in self.peers:
            peer.send(encode_request(code, 1, fields, body, oneway=True))


class Nameserver:
    """Knows `topics`: name → brokers. TBW102 is known while `creates` holds."""

    def __init__(self, brokers, creates=True):
        self.brokers, self.creates, self.topics = brokers, creates, {}
        self.asked, self.is_silent = [], False

    def __call__(self, peer, frame):
        command = decode_command(frame)
        topic = command.ext["topic"]
        if self.is_silent:
            return
        self.asked.append(topic)
        known = self.topics.get(topic)
        if known is None and topic == "TBW102" and self.creates:
            known = self.brokers
        if known is None:
            peer.send(encode_response(17, command.opaque, None, b"", "No topic route info"))
            return
        route = TopicRouteData(
            broker_datas=[
                BrokerData(
                    broker_name=b.name,
                    broker_addrs=getattr(b, "addresses", None) or {0: b.address},
                    cluster="C",
                )
                for b in known
            ],
            queue_datas=[
                QueueData(broker_name=b.name, perm=6, read_queue_nums=2, write_queue_nums=2) for b in known
            ],
        )
        peer.send(encode_response(0, command.opaque, None, encode_body(route, standard=True)))


@contextlib.asynccontextmanager
async def cluster(*brokers, topics=("T",), creates=True):
    """Run brokers and a nameserver that knows the topics on all of them; gives (nameserver, its address)."""
    async with contextlib.AsyncExitStack() as stack:
        for broker in brokers:
            server = RemotingServer(broker)
            stack.push_async_callback(server.close)
            broker.address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        nameserver = Nameserver(brokers, creates)
        nameserver.topics = dict.fromkeys(topics, brokers)
        server = RemotingServer(nameserver)
        stack.push_async_callback(server.close)
        yield nameserver, f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"


async def eventually(condition, seconds=60.0):
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
