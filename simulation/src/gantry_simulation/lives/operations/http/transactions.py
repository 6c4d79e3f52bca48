"""Transactions over HTTP."""

from __future__ import annotations

from gantry_simulation.ledger.delays import FASTER
from gantry_simulation.ledger.transactions import COMMIT, ROLLBACK, Decision
from gantry_simulation.lives.operations.doing import Doing, Operation, body_of, message_of, topic_of
from gantry_simulation.lives.operations.http.calls import call, note_refusal, query, queue_of
from gantry_simulation.lives.operations.sends import FSYNC
from gantry_simulation.lives.operations.transactions import CHECK_SECONDS
from gantry_simulation.lives.plan import Act

PRODUCER_GROUP = "http-producers"
CHECKS_MAX = 16
CONFLICT = 409
STATES_ASKED = (None, "open", "parked")


async def transaction(doing: Doing, act: Act) -> None:
    """Begin a transaction and decide it."""
    message = await _begin(doing, act)
    if message is not None:
        await decide(doing, message, _wanted(act))


async def open_transaction(doing: Doing, act: Act) -> None:
    """Begin a transaction whose decision is left to a check."""
    await _begin(doing, act)


def _wanted(act: Act) -> Decision:
    return ROLLBACK if act.number % 3 == 0 else COMMIT


async def _begin(doing: Doing, act: Act) -> str | None:
    """Begin a transaction. Returns its message, None if it may not have begun."""
    message, topic, ledger = f"ht{act.number}", topic_of(act), doing.ledger
    ledger.messages.sent.add(message)
    half = ledger.transactions.begin(message, topic)
    half.store, half.wanted = act.on, _wanted(act)
    since = ledger.since(act.on, topic)
    body = {
        "producerGroup": PRODUCER_GROUP,
        "message": {"body": body_of(message, act.size).decode(), **queue_of(act)},
    }
    begun = await call(doing, "POST", f"/v1/topics/{topic}/transactions", body)
    if not begun.is_success:
        note_refusal(doing, act, begun)
        return None
    shown = begun.json()
    half.key = shown["messageId"]
    ledger.messages.acknowledged += 1
    if shown["durability"] == FSYNC and ledger.losses.still_holds(act.on, topic, since):
        ledger.transactions.acknowledged(message, act.on, half.key)
    return message


async def decide(doing: Doing, message: str, decision: Decision) -> None:
    """Decide a transaction, as its producer or as an operator. Raises NoAnswer."""
    ledger = doing.ledger
    half = ledger.transactions.halves[message]
    since = ledger.since(half.store, half.topic)
    ledger.transactions.requested(message, decision)
    answer = await call(doing, "POST", f"/v1/transactions/{half.store}.{half.key}:{decision}")
    doing.history.add(doing.name, f"{decision} of {message}: {answer.status}")
    is_other = answer.status == CONFLICT and answer.json()["code"] == "TRANSACTION_DECIDED"
    if is_other:
        decision = ROLLBACK if decision == COMMIT else COMMIT
    if (answer.is_success or is_other) and ledger.losses.still_holds(half.store, half.topic, since):
        ledger.transactions.decided(message, decision)


async def decide_as_operator(doing: Doing, act: Act) -> None:
    """Decide the transaction with the number of this act, if it has begun."""
    message = f"ht{act.number}"
    half = doing.ledger.transactions.halves.get(message)
    if half is not None and half.key:
        await decide(doing, message, COMMIT if act.span_ms % 2 else ROLLBACK)


async def poll_checks(doing: Doing, act: Act) -> None:
    """Receive checks, and answer most of them."""
    await answer_checks(doing, wait=act.number % 3, leaves=act.number % 4)


async def answer_checks(doing: Doing, *, wait: int = 0, leaves: int = 0) -> None:
    """Receive checks and decide those transactions, without the first `leaves`. Raises NoAnswer."""
    transactions = doing.ledger.transactions
    body = {"waitSeconds": wait, "maxChecks": CHECKS_MAX}
    answer = await call(doing, "POST", f"/v1/producerGroups/{PRODUCER_GROUP}/checks:receive", body)
    if not answer.is_success:
        doing.history.add(doing.name, f"receives no checks: {answer.status}")
        return
    messages = [message_of(one["message"]["body"].encode()) for one in answer.json()["checks"]]
    doing.history.add(doing.name, f"receives checks of {', '.join(messages)}")
    for message in messages:
        transactions.checked(message, CHECK_SECONDS * (1 - FASTER) - 0.001)
    for message in messages[leaves:]:
        half = transactions.halves[message]
        if half.key and half.wanted is not None:
            await decide(doing, message, half.wanted)


async def list_transactions(doing: Doing, act: Act) -> None:
    """List undecided transactions. None of them was decided before."""
    transactions, losses = doing.ledger.transactions, doing.ledger.losses
    decided = {half.key: half for half in transactions.halves.values() if half.known}
    since = {half.key: doing.ledger.since(half.store, half.topic) for half in decided.values()}
    state = STATES_ASKED[act.number % len(STATES_ASKED)]
    answer = await call(doing, "GET", "/v1/transactions" + query(state=state))
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return
    shown = answer.json()["transactions"]
    doing.history.add(doing.name, f"lists {len(shown)} transactions, {state}")
    for one in shown:
        half = decided.get(one["messageId"])
        if half is not None and losses.still_holds(half.store, half.topic, since[half.key]):
            doing.violate(f"transaction {one['transactionId']} is decided, and listed as {one['state']}")
        if state not in (None, one["state"]):
            doing.violate(f"a list of {state} transactions has {one}")


TRANSACTION, DECIDE = "http transaction", "http decide"
SENDS: dict[str, Operation] = {TRANSACTION: transaction}
OPEN, CHECKS, LIST = "http open transaction", "http checks", "http list transactions"
CHECKED: dict[str, Operation] = {
    OPEN: open_transaction,
    CHECKS: poll_checks,
    LIST: list_transactions,
    DECIDE: decide_as_operator,
}
"""Operations of lives with txn-checkers."""
