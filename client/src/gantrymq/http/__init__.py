"""Producers and consumers over HTTP, using the gateway, with the names of the remoting ones for the same things.

Differences: messages are received on lease and acknowledged one by one (no offsets, no connection); an idempotency key makes every send
safe to repeat. `gantrymq.http.blocking` has the same without asyncio.
"""

from importlib.util import find_spec

if find_spec("httpx") is None:
    raise ModuleNotFoundError("gantrymq.http needs httpx: pip install 'gantrymq[http]'", name="httpx")

from gantrymq.http.consumer import Consumer, LeaseExpired
from gantrymq.http.leased import LeasedMessage
from gantrymq.http.problems import GatewayRefused
from gantrymq.http.producer import Producer

__all__ = ["Consumer", "GatewayRefused", "LeaseExpired", "LeasedMessage", "Producer"]
