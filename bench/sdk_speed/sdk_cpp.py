"""The SDK compared with the C++ based client of PyPI, as a part of `sdk.py`: the same broker, the same work, one after the other in one run.

python bench/sdk_speed/sdk.py --only cpp
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from gantrymq import Producer
from measuring.system import System, cpu_seconds
from sdk_speed.sdk_consumer import consume, fill
from sdk_speed.sdk_measures import SEND_SECONDS, TOPIC, Line, Options, make_topic, measured, sends

LOAD = Path(__file__).with_name("sdk_cpp_load.py")
CONSUMED = 50_000
THREADS = (1, 32)
CONSUME_THREADS = 4
WAIT_SECONDS = 120.0


async def cpp_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Measure acknowledged sends at 1 and 32 in flight, then an empty listener on a filled topic."""
    body = bytes(options.body)
    await make_topic(system, TOPIC)
    async with Producer("sdk-bench", nameservers=system.nameserver, send_timeout=SEND_SECONDS) as producer:
        for threads in THREADS:
            words = (str(threads), str(options.seconds), str(options.body))
            other = await _other(system, f"C++ client, {threads} in flight", "send", TOPIC, *words)
            yield other
            work = sends(producer, threads, body)
            what = f"cpp send, {threads} in flight"
            yield await measured(system, what, options.seconds, work, other.value)
    topic = "SdkCpp"
    await fill(system, topic, CONSUMED, body)
    words = ("sdk-bench-cpp-push", str(CONSUMED), str(CONSUME_THREADS))
    other = await _other(system, "C++ client, consume", "consume", topic, *words)
    yield other
    group, floor = "sdk-bench-py-push", other.value
    yield await consume(system, group, topic, "cpp consume", "coroutine", 1, CONSUMED, floor)


async def _other(system: System, what: str, word: str, topic: str, *words: str) -> Line:
    """Run the other client in a separate process: its threads would take our interpreter's lock."""
    broker = cpu_seconds(system.store_pid)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(LOAD),
        word,
        system.nameserver,
        topic,
        *words,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    if process.returncode:
        sys.exit(f"{what}: its program ended with {process.returncode}, and says above why")
    said = json.loads(output.splitlines()[-1])
    broker = cpu_seconds(system.store_pid) - broker
    done = said["rate"] * float(words[1]) if word == "send" else CONSUMED
    return Line(what, said["rate"], said["client_us"], broker / max(done, 1) * 1e6)
