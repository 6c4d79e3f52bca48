"""Producers and consumers over HTTP, using the gateway, with the names of the remoting ones for the same things.

Differences: messages are received on lease and acknowledged one by one (no offsets, no connection); an idempotency key makes every send
safe to repeat. `gantry.http.blocking` has the same without asyncio.
"""

from importlib.util import find_spec

if find_spec("httpx") is None:
    raise ModuleNotFoundError("gantry.http needs httpx: pip install 'gantry-client[http]'", name="httpx")

from gantry.http.consumer import Consumer, LeaseExpired
from gantry.http.leased import LeasedMessage
from gantry.http.problems import GatewayRefused
from gantry.http.producer import Producer

__all__ = ["Consumer", "GatewayRefused", "LeaseExpired", "LeasedMessage", "Producer"]
