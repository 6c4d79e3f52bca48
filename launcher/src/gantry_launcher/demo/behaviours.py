"""The features that the demo shows besides sending: a delayed message, a cancelled one, a transaction, and a dead letter that is redriven."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gantry_launcher.demo.load import Http
from gantry_launcher.errors import Refused

TOPIC = "demo-orders"
PATH = f"/v1/topics/{TOPIC}/queues/broker-a/0/messages"
GROUP = "demo-kitchen"
DELAY_MS = 1500
PATIENCE_SECONDS = 30.0

Say = Callable[[str], None]


def show_behaviours(base: str, say: Say) -> None:
    """Show them one after the other. Raises Refused when the system answers what it should not."""
    gateway = Http(base)
    only(gateway.call("PUT", f"/v1/topics/{TOPIC}", {"readQueues": 1, "writeQueues": 1, "perm": "rw"}))
    _show_delay(gateway, say)
    _show_transaction(gateway, say)
    _show_dead_letter(gateway, say)
    gateway.close()


def only(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the body of a call that cannot have failed here."""
    status, body = answer
    if status != 200:
        raise Refused(f"the gateway answered {status}: {body.get('detail', body)}")
    return body


def _show_delay(gateway: Http, say: Say) -> None:
    sent = _send(gateway, "wake me later", delayMs=DELAY_MS)
    say(f"Delayed  'wake me later' by {DELAY_MS} ms: due at {sent['deliverAt']}")
    cancelled = _send(gateway, "never mind", delayMs=3_600_000)
    answer = only(gateway.call("DELETE", f"/v1/schedules/{cancelled['messageId']}"))
    say(f"Cancel   'never mind', due in an hour: {answer['status']}")
    found = _wait_for(gateway, 0)
    late = _milliseconds(found["storeTimestamp"]) - _milliseconds(sent["deliverAt"])
    say(f"Arrived  {found['body']!r}, {late:.0f} ms after it was due")


def _show_transaction(gateway: Http, say: Say) -> None:
    body = {"producerGroup": "demo-shop", "message": {"body": "paid and in stock"}}
    begun = only(gateway.call("POST", f"/v1/topics/{TOPIC}/transactions", body))
    seen = only(gateway.call("GET", f"{PATH}?offset=1"))
    say(f"Begun    a transaction; before its commit a consumer sees {len(seen.get('messages', []))} of it")
    only(gateway.call("POST", f"/v1/transactions/{begun['transactionId']}:commit"))
    say(f"Commit   and a consumer sees {_wait_for(gateway, 1)['body']!r}")


def _show_dead_letter(gateway: Http, say: Say) -> None:
    only(gateway.call("PUT", f"/v1/groups/{GROUP}", {"retryMaxTimes": 1}))
    _receive(gateway, say_nothing)  # a new group: what is there already is taken out of the way
    _send(gateway, "burnt toast")
    for attempt in (1, 2):
        message = _receive(gateway, lambda m: m["body"] == "burnt toast")
        nack = {"receiptHandle": message["receiptHandle"], "delaySeconds": 0, "reason": "burnt"}
        only(gateway.call("POST", f"/v1/topics/{TOPIC}/groups/{GROUP}/messages:ack", {"nacks": [nack]}))
        say(f"Refused  {message['body']!r} by its consumer, attempt {attempt}")
    path = f"/v1/groups/{GROUP}/deadLetters"
    dead = _until(lambda: only(gateway.call("GET", path))["messages"])[0]
    why = dead.get("deadLetter", {}).get("reason")
    say(f"Died     {dead['body']!r} lies among the dead letters of {GROUP}, because: {why}")
    task = only(gateway.call("POST", f"{path}:redrive", {}))
    done = _until(lambda: _finished(gateway, task["id"]))
    _receive(gateway, lambda m: m["body"] == "burnt toast")
    say(f"Redriven {done['done']} of {done['total']}, and its consumer has it again\n")


def say_nothing(_message: dict[str, Any]) -> bool:
    """Take every message."""
    return False


def _finished(gateway: Http, task: str) -> dict[str, Any] | None:
    shown = only(gateway.call("GET", f"/v1/tasks/{task}"))
    return shown if shown["state"] != "running" else None


def _send(gateway: Http, body: str, **more: object) -> dict[str, Any]:
    message = {"messages": [{"body": body, **more}]}
    sent: dict[str, Any] = only(gateway.call("POST", f"/v1/topics/{TOPIC}/messages", message))["results"][0]
    return sent


def _receive(gateway: Http, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Receive until a wanted message comes; every other is acknowledged. Without one: what there was is taken."""
    path = f"/v1/topics/{TOPIC}/groups/{GROUP}/messages"
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        wait = 0 if is_wanted is say_nothing else 5
        answer = only(gateway.call("POST", f"{path}:receive", {"maxMessages": 16, "waitSeconds": wait}))
        for message in answer["messages"]:
            if is_wanted(message):
                return message
            acks = [{"receiptHandle": message["receiptHandle"]}]
            only(gateway.call("POST", f"{path}:ack", {"acks": acks}))
        if is_wanted is say_nothing and not answer["messages"]:
            return {}
    raise Refused("the message that was to be received did not come")


def _wait_for(gateway: Http, offset: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = only(gateway.call("GET", f"{PATH}?offset={offset}&waitSeconds=20"))[
        "messages"
    ]
    if not found:
        raise Refused(f"nothing came at offset {offset}")
    return found[0]


def _until(ask: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise Refused("what should have happened did not")


def _milliseconds(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000
