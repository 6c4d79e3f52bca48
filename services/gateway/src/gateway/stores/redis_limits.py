"""Rate limits as token buckets in Redis, shared by all gateways. Only this module knows Redis.

Without Redis everything passes: skipping a limit is better than losing a message.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gantry_chassis.logs.structured import get_logger
from gantry_link.connections.client_tls import ClientTlsFiles

ANSWER_SECONDS = 0.1
AWAY_SECONDS = 1.0
"""Pause before Redis is tried again after a failure."""

# KEYS: buckets; ARGV: cost, then rate per second and burst of each. Takes from all or from none; returns ms
# to wait. Uses the server's clock, so that gateways need no common time.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cost = tonumber(ARGV[1])
local wait = 0
local left = {}
for n, key in ipairs(KEYS) do
  local rate, burst = tonumber(ARGV[2 * n]), tonumber(ARGV[2 * n + 1])
  local held = redis.call('HMGET', key, 'tokens', 'at')
  local tokens = tonumber(held[1]) or burst
  local at = tonumber(held[2]) or now
  tokens = math.min(burst, tokens + math.max(0, now - at) * rate / 1000)
  -- A request larger than the burst passes a full bucket and leaves a debt: it could never pass otherwise.
  local need = math.min(cost, burst)
  if tokens < need then wait = math.max(wait, math.ceil((need - tokens) * 1000 / rate)) end
  left[n] = tokens
end
if wait > 0 then return wait end
for n, key in ipairs(KEYS) do
  local rate, burst = tonumber(ARGV[2 * n]), tonumber(ARGV[2 * n + 1])
  redis.call('HSET', key, 'tokens', left[n] - cost, 'at', now)
  redis.call('PEXPIRE', key, math.ceil((burst + cost) * 1000 / rate) + 1000)
end
return 0
"""

_log = get_logger()


def _tls_options(files: ClientTlsFiles | None) -> dict[str, Any]:
    """Return the driver's names of TLS files."""
    if files is None:
        return {}
    return {
        "ssl_ca_certs": files.authorities or None,
        "ssl_certfile": files.certificate or None,
        "ssl_keyfile": files.key or files.certificate or None,
        "ssl_check_hostname": files.verify_name,
    }


class RedisLimits:
    """Token buckets `gantry:rate:client:<address>` and `gantry:rate:topic:<topic>`."""

    def __init__(
        self,
        url: str,
        steady: Callable[[], float],
        *,
        client_rate: int,
        topic_rate: int,
        burst_seconds: float,
        password: str = "",
        answer_seconds: float = ANSWER_SECONDS,
        tls: ClientTlsFiles | None = None,
    ) -> None:
        """Rates in messages per second; 0 disables a limit. A url with rediss:// needs the files of `tls`."""
        self._redis = Redis.from_url(
            url,
            socket_timeout=answer_seconds,
            socket_connect_timeout=answer_seconds,
            password=password or None,
            **_tls_options(tls),
        )
        self._take = cast("Callable[..., Awaitable[Any]]", self._redis.register_script(_TAKE))
        self._rates = {"client": client_rate, "topic": topic_rate}
        self._burst_seconds, self._answer_seconds = burst_seconds, answer_seconds
        self._steady = steady
        self._away_until = 0.0
        self.refused = 0
        self.passed_unseen = 0
        """Calls that passed because Redis was away."""

    async def take(self, client: str, topic: str, count: int) -> int:
        """Take `count` tokens of the client and, if `topic` is given, of the topic; return ms to wait, or 0."""
        keys: list[str] = []
        arguments: list[float] = [max(1, count)]
        for kind, name in (("client", client), ("topic", topic)):
            rate = self._rates[kind]
            if rate and name:
                keys.append(f"gantry:rate:{kind}:{name}")
                arguments += [rate, max(1.0, rate * self._burst_seconds)]
        if not keys:
            return 0
        if self._steady() < self._away_until:
            self.passed_unseen += 1
            return 0
        try:
            async with asyncio.timeout(self._answer_seconds):
                wait_ms = int(await self._take(keys=keys, args=arguments))
        except (RedisError, OSError, TimeoutError) as error:
            if not self._away_until:
                _log.warning("no rate limits: Redis is away", error=str(error) or "no answer in time")
            self._away_until = self._steady() + AWAY_SECONDS
            self.passed_unseen += 1
            return 0
        if self._away_until:
            _log.info("rate limits again: Redis is back")
        self._away_until = 0.0
        self.refused += wait_ms > 0
        return wait_ms

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
