"""Failed messages return to their broker, else to the retry topic, else they are consumed here once more."""

import asyncio

import pytest
from received import QUEUES, received, until

from gantry_link.errors import BrokerRefused, NotConnected
from gantry_wire.frames.encode import encode_request
from gantrymq.consumer.retrying import returning
from gantrymq.consumer.retrying.returning import Failed, Returning
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.machine import THIS_MACHINE
from gantrymq.message import MessageQueue

pytestmark = pytest.mark.anyio


class Shop:
    """A broker that takes back, and takes new messages, or not."""

    def __init__(self, *, takes_back: bool = True, takes_new: bool = True) -> None:
        self.takes_back, self.takes_new = takes_back, takes_new
        self.back, self.new = [], []

    def store(self, broker: str):
        return self

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "broker-a", 0)]

    async def ask(self, code, header, body=b"", **_):
        if not self.takes_back:
            raise BrokerRefused(1, "look message by offset failed, 0")
        self.back.append(header)

    async def send(self, header, body):
        if not self.takes_new:
            raise NotConnected("gone")
        self.new.append((header, body))


async def return_one(shop: Shop, *, level: int = 0, reconsumed: int = 0):
    message = received(7, b"body", reconsumed=reconsumed, UNIQ_KEY="U1", KEYS="k", TRAN_MSG="true")
    gone, again = [], []
    returns = Returning(
        shop, "g", 16, lambda queue, ms: gone.extend(ms), lambda queue, ms: again.extend(ms), THIS_MACHINE
    )
    working = asyncio.ensure_future(returns.run())
    returns.put(Failed(ProcessQueue(QUEUES[0], 0, 0.0), [message], level, "it failed"))
    await until(lambda: not returns.is_busy and (gone or again or returns._later))
    return message, gone, again, returns, working


async def end(returns: Returning, working: asyncio.Future[None]) -> None:
    returns.close()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_failed_message_goes_back_to_its_broker() -> None:
    shop = Shop()
    message, gone, again, *rest = await return_one(shop, level=5)
    header = shop.back[0]
    assert (gone, again, shop.new) == ([message], [], [])
    assert (header.offset, header.group, header.delay_level, header.reason) == (7000, "g", 5, "it failed")
    assert (header.origin_msg_id, header.origin_topic, header.max_reconsume_times) == ("U1", "orders", 16)
    await end(*rest)


async def test_an_unwritable_reason_does_not_block_a_message() -> None:
    shop, gone, again = Shop(), [], []
    returns = Returning(
        shop, "g", 16, lambda queue, ms: gone.extend(ms), lambda queue, ms: again.extend(ms), THIS_MACHINE
    )
    working = asyncio.ensure_future(returns.run())
    returns.put(Failed(ProcessQueue(QUEUES[0], 0, 0.0), [received(7)], 0, "no file \udc80"))
    await until(lambda: gone)
    assert encode_request(36, 1, shop.back[0])
    shop.store = lambda broker: None  # a fault of the SDK, of whatever kind
    returns.put(Failed(ProcessQueue(QUEUES[0], 0, 0.0), [received(8)], 0, "it failed"))
    await until(lambda: returns._later)
    await end(returns, working)


async def test_a_message_the_broker_cannot_take_back_goes_to_the_retry_topic() -> None:
    shop = Shop(takes_back=False)
    message, gone, _, *rest = await return_one(shop, reconsumed=2)
    header, body = shop.new[0]
    properties = dict(part.split("\x01") for part in header.properties.split("\x02") if part)
    assert gone == [message]
    assert (header.topic, header.reconsume_times, header.max_reconsume_times, body) == (
        "%RETRY%g",
        3,
        16,
        b"body",
    )
    assert (properties["RETRY_TOPIC"], properties["DELAY"], properties["RECONSUME_TIME"]) == (
        "orders",
        "5",
        "3",
    )
    assert properties["ORIGIN_MESSAGE_ID"] == message.offset_message_id
    assert "TRAN_MSG" not in properties
    await end(*rest)


async def test_a_message_no_broker_accepts_is_consumed_here_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(returning, "LOCAL_RETRY_SECONDS", 0.01)
    message, gone, again, *rest = await return_one(Shop(takes_back=False, takes_new=False))
    await until(lambda: again == [message])
    assert (gone, message.reconsume_times) == ([], 1)
    await end(*rest)
