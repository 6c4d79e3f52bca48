"""HTTP sends compared with an empty FastAPI POST endpoint with a pydantic body, in the same run on the same machine.

    python bench/http_speed/http_send.py [--seconds 30] [--connections 32] [--flush sync] [--gateway-workers 1]

Prints both rates and their ratio, the rate of sends with an idempotency key, then that of messages in batches of 100; and
the CPU time of store and gateway per request, which a loaded machine changes less. Uses wrk if it is installed (not for keys),
otherwise its own generator; either is a separate process and takes its share of the cores from both sides alike.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from http_speed.http_load import KEY
from measuring.system import System, cpu_seconds, end_in_order, provenance, started
from reporting.figures import figure

BODY = "x" * 128
BATCH = 100
WARM_SECONDS = 2.0
HERE = Path(__file__).resolve().parent

EMPTY = """
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Message(BaseModel):
    body: str
    tag: str | None = None
    keys: list[str] = []
    properties: dict[str, str] = {}

class Send(BaseModel):
    messages: list[Message]

app = FastAPI()

@app.post("/send")
async def send(request: Send):
    return {"results": [{"status": "SEND_OK"}]}

uvicorn.run(app, host="127.0.0.1", port=PORT, access_log=False, log_level="error", loop="uvloop", http="httptools")
"""


@contextlib.contextmanager
def empty_endpoint() -> Generator[str]:
    """Run the endpoint of the comparison; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", EMPTY.replace("PORT", str(port))])
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/send"
    finally:
        process.terminate()
        process.wait()


def load(
    url: str, body: bytes, connections: int, seconds: float, *, with_wrk: bool = True, method: str = "POST"
) -> dict[str, Any]:
    """Load a URL from another process; return the results in the format of http_load.py."""
    if with_wrk and shutil.which("wrk"):
        return _wrk(url, body, connections, seconds)
    command = [
        sys.executable,
        str(HERE / "http_load.py"),
        url,
        "--connections",
        str(connections),
        "--seconds",
        str(seconds),
        "--method",
        method,
    ]
    return json.loads(subprocess.run(command, input=body, stdout=subprocess.PIPE, check=True).stdout)


def _wrk(url: str, body: bytes, connections: int, seconds: float) -> dict[str, Any]:
    script = f"wrk.method='POST'\nwrk.headers['Content-Type']='application/json'\nwrk.body=[==[{body.decode()}]==]\n"
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", file.name, url]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return {
        "per_second": float(rate[1]),
        "failed": int(failed[1]) if failed else 0,
        "p50_ms": _wrk_ms(text, "50%"),
        "p99_ms": _wrk_ms(text, "99%"),
    }


def _wrk_ms(text: str, share: str) -> float:
    found = re.search(re.escape(share) + r"\s+([\d.]+)(us|ms|s)", text)
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]] if found else 0.0


def make_topic(http: str) -> None:
    put = Request(
        f"{http}/v1/topics/bench",
        b'{"readQueues":8,"writeQueues":8}',
        {"content-type": "application/json"},
        method="PUT",
    )
    with urlopen(put, timeout=30) as answer:
        assert answer.status == 200


def measured(
    system: System, body: bytes, connections: int, seconds: float, *, with_wrk: bool = True
) -> dict[str, Any]:
    """Do the same for sends to a running system, with the CPU time of its processes."""
    url, gateways = f"{system.http}/v1/topics/bench/messages", system.raw["pids"]["gateway"]
    load(url, body, connections, WARM_SECONDS, with_wrk=with_wrk)
    store_s, gateway_s = cpu_seconds(system.store_pid), sum(map(cpu_seconds, gateways))
    figures = load(url, body, connections, seconds, with_wrk=with_wrk)
    requests = figures["per_second"] * figures.get("seconds", seconds)
    figures["store_us"] = 1e6 * (cpu_seconds(system.store_pid) - store_s) / requests
    figures["gateway_us"] = 1e6 * (sum(map(cpu_seconds, gateways)) - gateway_s) / requests
    return figures


def report(
    name: str, figures: dict[str, Any], floor: float | None = None, beside: str = "", messages: int = 1
) -> float:
    rate = figures["per_second"] * messages
    words = f"p50 {figures['p50_ms']:.2f} ms, p99 {figures['p99_ms']:.2f} ms"
    if "store_us" in figures:
        words += f", CPU us a request: store {figures['store_us']:.0f}, gateway {figures['gateway_us']:.0f}"
    if figures["failed"]:
        words += f", FAILED {figures['failed']}"
    figure(f"http_send.{name}", rate, "msg/s", floor=floor, beside=beside, words=words)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--flush", choices=["sync", "async"], default="sync")
    parser.add_argument("--gateway-workers", type=int, default=1)
    options = parser.parse_args()
    one = json.dumps({"messages": [{"body": BODY}]}).encode()
    with_key = json.dumps({"messages": [{"body": BODY, "idempotencyKey": KEY.decode()}]}).encode()
    many = json.dumps({"messages": [{"body": BODY}] * BATCH}).encode()
    print(
        provenance(f"flush={options.flush}"),
        "with",
        "wrk" if shutil.which("wrk") else "our own load generator",
    )
    end_in_order()
    with empty_endpoint() as url:
        load(url, one, options.connections, WARM_SECONDS)
        empty = report("empty endpoint", load(url, one, options.connections, options.seconds))
    with started("--flush", options.flush, "--gateway-workers", str(options.gateway_workers)) as system:
        make_topic(system.http)
        shape = options.connections, options.seconds
        single = report("single", measured(system, one, *shape), empty, "empty FastAPI + pydantic endpoint")
        if shutil.which("wrk"):
            single = report("single, our generator", measured(system, one, *shape, with_wrk=False))
        report("keyed", measured(system, with_key, *shape, with_wrk=False), single, "plain send")
        report("batch", measured(system, many, *shape), messages=BATCH)


if __name__ == "__main__":
    main()
