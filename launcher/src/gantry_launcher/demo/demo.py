"""`demo`: a minute on a throwaway system: send and pull, delayed messages, dead letters and their redrive, and kill -9 of the store under load.

With replicas, the store that leads is killed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from gantry_launcher.demo.behaviours import only, show_behaviours
from gantry_launcher.demo.load import QUEUES, TOPIC, Http, Load, judge
from gantry_launcher.errors import EXIT_REFUSED, Refused
from gantry_launcher.layout import ROOT
from gantry_launcher.output.terminal import write_out

KILLS = 3
SECONDS_BETWEEN_KILLS = 6.0
READY_AGAIN_SECONDS_MAX = 60.0


def demo(replicas: int = 1) -> int:
    """Show it, with so many stores for the broker; exit status 1 when a message was lost or doubled."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit ends it as Ctrl-C does
    folder = Path(tempfile.mkdtemp(prefix="gantry-demo-"))
    try:
        stores = "store" if replicas == 1 else f"{replicas} stores that keep the same log"
        _say(
            f"Starting a throwaway system: NATS, Valkey, nameserver, {stores}, scheduler, txn-checker, gateway."
        )
        options = "--free-ports", "--detach", "--json", "--replicas", str(replicas)
        state = _gantry("up", "--data", str(folder), *options)
        _say(
            f"Ready after {state['seconds']} s: a message has made the round trip. HTTP at {state['http']}\n"
        )
        _show_send_and_pull(state["http"])
        show_behaviours(state["http"], _say)
        return _show_kills(state, folder)
    finally:
        _remove(folder)
        _say("Stopped, and its directory removed.")


def _remove(folder: Path) -> None:
    """Stop what runs there, be it half started, and delete it; no signal cuts this short."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    down = [*_command(), "down", "--data", str(folder)]
    subprocess.run(down, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


def _show_send_and_pull(base: str) -> None:
    gateway = Http(base)
    queues = {"readQueues": QUEUES, "writeQueues": QUEUES, "perm": "rw"}
    gateway.call("PUT", "/v1/topics/orders", queues)
    message = {"body": "one coffee", "tag": "counter", "keys": ["o-1"], "broker": "broker-a", "queueId": 0}
    result = only(gateway.call("POST", "/v1/topics/orders/messages", {"messages": [message]}))
    sent = result["results"][0]
    _say(
        f"Sent     {message['body']!r} to orders: queue 0, offset {sent['queueOffset']}, durable: {sent['durability']}"
    )
    path = "/v1/topics/orders/queues/broker-a/0/messages"
    found = only(gateway.call("GET", f"{path}?offset=0"))["messages"][0]
    _say(f"Pulled   {found['body']!r} with tag {found['tag']!r} and keys {found['keys']}")

    answered: list[tuple[float, dict[str, Any]]] = []

    def hold() -> None:
        answer = only(Http(base).call("GET", f"{path}?offset=1&waitSeconds=20"))
        answered.append((time.monotonic(), answer))

    waiting = threading.Thread(target=hold)
    waiting.start()
    _say("Held     a pull at offset 1, where nothing is yet …")
    time.sleep(2)
    message["body"] = "one tea"
    gateway.call("POST", "/v1/topics/orders/messages", {"messages": [message]})
    acknowledged = time.monotonic()
    waiting.join()
    when, answer = answered[0]
    took = f"{max(0.0, when - acknowledged) * 1000:.0f} ms after the sender had its answer"
    _say(f"Woken    with {answer['messages'][0]['body']!r}, {took}\n")


def _show_kills(state: dict[str, Any], folder: Path) -> int:
    queues = {"readQueues": QUEUES, "writeQueues": QUEUES, "perm": "rw"}
    only(Http(state["http"]).call("PUT", f"/v1/topics/{TOPIC}", queues))
    _say("Load: senders over HTTP, each message with an idempotency key, answered after fdatasync.")
    load = Load(state["http"])
    load.start()
    try:
        for number in range(KILLS):
            time.sleep(SECONDS_BETWEEN_KILLS)
            _kill_store(load, folder, number + 1)
        time.sleep(SECONDS_BETWEEN_KILLS / 2)
    finally:
        load.stop()
    _say("Reading everything back …\n")
    history, verdict = load.history, judge(state["http"], load.history)
    for words in history.refused[:3]:
        _say(f"refused: {words}")
    acknowledged = len(history.acknowledged)
    counts = f"attempted {history.attempted}  acknowledged {acknowledged}  lost {verdict.lost}  duplicated {verdict.duplicated}"
    _say(f"{counts}  (repeated after no answer: {history.repeated}; found: {verdict.found})")
    return 0 if not verdict.lost and not verdict.duplicated and acknowledged else 1


def _kill_store(load: Load, folder: Path, number: int) -> None:
    """Kill the store as a power switch would its process, and wait until sends are acknowledged again."""
    broker = _in_sync(folder)
    pid, leader = broker["pid"], broker.get("leader")
    who = f"the store {leader}, which leads" if leader else "the store"
    if pid is None:
        raise Refused("the store is still down after the kill before; what it said is shown above")
    before = len(load.history.acknowledged)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    _say(f"kill -9  {pid} ({who}), kill {number}; {before} messages acknowledged so far")
    time.sleep(0.1)
    while time.monotonic() - killed < READY_AGAIN_SECONDS_MAX:
        now = _status(folder)["brokers"][0]
        if now["pid"] not in {None, pid} and len(load.history.acknowledged) > before + 100:
            how = f"{now['leader']} leads now" if leader else "recovered by itself"
            _say(f"         {how}; sends are acknowledged again {time.monotonic() - killed:.1f} s later")
            return
        time.sleep(0.1)
    _say("         it did not come back within a minute")


def _in_sync(folder: Path) -> dict[str, Any]:
    """Return the broker, once every replica of it is in sync: the store that was killed before is back."""
    until = time.monotonic() + READY_AGAIN_SECONDS_MAX
    while True:
        broker: dict[str, Any] = _status(folder)["brokers"][0]
        roles = {replica["role"] for replica in broker.get("replicas", [])}
        if roles <= {"leader", "follower"}:
            return broker
        if time.monotonic() > until:
            raise Refused(f"not every replica is in sync a minute after the kill before: {broker}")
        time.sleep(0.2)


def _status(folder: Path) -> dict[str, Any]:
    return _gantry("status", "--data", str(folder), "--json")


def _gantry(*words: str) -> dict[str, Any]:
    """Run a command of the launcher and return its JSON line."""
    ran = subprocess.run([*_command(), *words], stdout=subprocess.PIPE, check=False)
    if ran.returncode == EXIT_REFUSED:
        raise Refused("the demo cannot start; the line above says why")
    state: dict[str, Any] = json.loads(ran.stdout)
    return state


def _command() -> tuple[str, str]:
    return sys.executable, str(ROOT / "gantry")


def _say(words: str) -> None:
    write_out(words + "\n")
