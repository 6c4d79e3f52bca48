"""Transactions: halves, which their producers commit, roll back or leave to a check, and decisions of an operator."""

from __future__ import annotations

from gantry_link.clients.transactions import TransactionStoreClient
from gantry_link.connections.connection import Connection
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.ledger.delays import FASTER
from gantry_simulation.ledger.places import Since
from gantry_simulation.ledger.transactions import COMMIT, ROLLBACK, STATES, Decision
from gantry_simulation.lives.operations.doing import ANSWER_SECONDS, Doing, Operation, body_of, topic_of
from gantry_simulation.lives.operations.sends import send_header, unique, unique_key
from gantry_simulation.lives.plan import Act
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import CheckTransactionHeader, EndTransactionHeader
from gantry_wire.messages.properties import PRODUCER_GROUP, TRANSACTION_PREPARED
from gantry_wire.private_requests.transactions import DecideTransaction

GROUP = "producers"
CHECK_SECONDS = 1.0
"""Time from a half to its first check: a setting of the checkers."""
CODES: dict[Decision, int] = {COMMIT: 8, ROLLBACK: 12}
PREPARED_FLAG = 4
DECIDED = "TRANSACTION_DECIDED"


def _other(decision: Decision) -> Decision:
    return ROLLBACK if decision == COMMIT else COMMIT


def _message(act: Act) -> str:
    return f"t{act.number}"


def _wanted(act: Act) -> Decision:
    return ROLLBACK if act.number % 3 == 0 else COMMIT


async def begin(doing: Doing, act: Act) -> None:
    """Send a half and decide it."""
    ended = await _send(doing, act)
    if ended is not None:
        await _end(doing, act, ended)


async def begin_undecided(doing: Doing, act: Act) -> None:
    """Send a half whose decision is left to a check."""
    await _send(doing, act)


async def _send(doing: Doing, act: Act) -> EndTransactionHeader | None:
    """Send a half. Returns the request that decides it, None when it may not be durable."""
    message, topic, ledger = _message(act), topic_of(act), doing.ledger
    ledger.messages.sent.add(message)
    half = ledger.transactions.begin(message, topic)
    half.store, half.key, half.wanted = act.on, unique_key(message), _wanted(act)
    ledger.transactions.by_key[half.key] = message
    since = ledger.since(act.on, topic)
    properties = f"{unique(message)}{TRANSACTION_PREPARED}\x01true\x02{PRODUCER_GROUP}\x01{GROUP}\x02"
    header = send_header(doing, act, properties, group=GROUP, sys_flag=PREPARED_FLAG)
    stored = await doing.store(act.on).send(header, body_of(message, act.size))
    doing.history.add(doing.name, f"half {message} is stored on {act.on}: code {stored.code}")
    ledger.messages.acknowledged += 1
    if stored.code:
        return None
    if ledger.losses.still_holds(act.on, topic, since):
        ledger.transactions.acknowledged(message, act.on, half.key)
    position = int(stored.reply.msg_id[-16:], 16)
    return _end_header(topic, half.key, half.wanted, stored.reply.queue_offset, position)


def _end_header(
    topic: str, key: str, decision: Decision, offset: int, position: int, *, from_check: bool = False
) -> EndTransactionHeader:
    return EndTransactionHeader(
        topic=topic, producer_group=GROUP, tran_state_table_offset=offset, commit_log_offset=position,
        commit_or_rollback=CODES[decision], from_transaction_check=from_check, msg_id=key, transaction_id=key,
    )  # fmt: skip


async def _end(doing: Doing, act: Act, header: EndTransactionHeader) -> None:
    """Decide a half as its producer wants."""
    message, wanted = _message(act), _wanted(act)
    since = doing.ledger.since(act.on, topic_of(act))
    doing.ledger.transactions.requested(message, wanted)
    try:
        await doing.store(act.on).ask(RequestCode.END_TRANSACTION, header)
    except BrokerRefused as refused:
        if refused.fields.get("gantryCode") != DECIDED:
            raise
        wanted = _other(wanted)
    _decided(doing, act, message, wanted, since)


async def decide(doing: Doing, act: Act) -> None:
    """Decide the transaction with the number of this act, as an operator does."""
    message = _message(act)
    half = doing.ledger.transactions.halves.get(message)
    if half is None:
        return
    decision = COMMIT if act.span_ms % 2 else ROLLBACK
    since = doing.ledger.since(act.on, topic_of(act))
    doing.ledger.transactions.requested(message, decision)
    store = doing.store(act.on)
    client = TransactionStoreClient(store.pool, store.address, ANSWER_SECONDS)
    try:
        view = await client.decide(DecideTransaction(key=half.key, decision=decision))
        decision = STATES[view.state]
    except BrokerRefused as refused:
        if refused.fields.get("gantryCode") != DECIDED:
            raise
        decision = _other(decision)
    _decided(doing, act, message, decision, since)


def _decided(doing: Doing, act: Act, message: str, decision: Decision, since: Since) -> None:
    doing.history.add(doing.name, f"{message} has the decision {decision}")
    if doing.ledger.losses.still_holds(act.on, topic_of(act), since):
        doing.ledger.transactions.decided(message, decision)


def answer_check(doing: Doing, connection: Connection, command: Command) -> None:
    """Answer a store that asks for the outcome of a transaction; the first time not always."""
    if command.code != RequestCode.CHECK_TRANSACTION_STATE:
        return
    asked = command.read(CheckTransactionHeader)
    transactions = doing.ledger.transactions
    message = transactions.by_key[asked.transaction_id or ""]
    half = transactions.halves[message]
    transactions.checked(message, CHECK_SECONDS * (1 - FASTER) - 0.001)
    doing.history.add(doing.name, f"is asked for {message}: {half.wanted}")
    if half.wanted is None or (half.checks == 1 and half.sent_ns % 2):
        return
    transactions.requested(message, half.wanted)
    header = _end_header(
        half.topic, half.key, half.wanted, asked.tran_state_table_offset, asked.commit_log_offset,
        from_check=True,
    )  # fmt: skip
    try:
        connection.oneway(RequestCode.END_TRANSACTION, header)
    except LinkError:
        return


SENDS: dict[str, Operation] = {
    "transaction": begin,
    "open transaction": begin_undecided,
}
DECIDE = "decide"
ORDERS: dict[str, Operation] = {DECIDE: decide}
