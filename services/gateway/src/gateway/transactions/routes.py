"""Transactions: begin, commit, roll back, show, list; and the checks of a producer group."""

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta

from gantry_wire.private_requests.transactions import (
    PAGE_MAX,
    Decision,
    ListTransactions,
    TransactionView,
    transaction_id,
)
from gateway.http.access import Access
from gateway.http.call import Call
from gateway.http.problems import rate_limited
from gateway.http.trace import trace_properties
from gateway.messages.examples import MESSAGE_EXAMPLE
from gateway.messages.message_view import message, rfc3339
from gateway.ports.stores import RateLimits
from gateway.requests.checks import group_of, sendable, topic_of
from gateway.requests.fields import (
    GROUP_CHARS_MAX,
    GROUP_PATTERN,
    ID_PATTERN,
    BrokerOrAll,
    GroupText,
    TopicName,
    TopicOrAll,
)
from gateway.requests.operations import Details, Operation, Operations
from gateway.send.routes import EnsureTopic
from gateway.transactions.schemas import (
    BeginRequest,
    CheckOut,
    ChecksReply,
    DecideRequest,
    ReceiveChecksRequest,
    TransactionBegun,
    TransactionDecided,
    TransactionShown,
    TransactionsReply,
)
from gateway.transactions.transactions import TopicRights, Transactions, age_ms, of_rights

CHECKS = ("POST", "/v1/producerGroups/{group}/checks:receive")
"""Method and path template of the call that waits for checks."""
ID_CHARS_MAX = 1024
_MESSAGE_ID = "7F0000010A1B00000000000012345678"
_ID_EXAMPLE = f"broker-a.{_MESSAGE_ID}"
_BEGIN_EXAMPLE = {"producerGroup": "shop", "message": {"body": "order 7 is paid", "keys": ["o-7"]}}
_BEGUN_EXAMPLE = {
    "transactionId": _ID_EXAMPLE,
    "messageId": _MESSAGE_ID,
    "broker": "broker-a",
    "durability": "fsync",
}
_DECIDED_EXAMPLE = {
    "status": "committed",
    "transactionId": _ID_EXAMPLE,
    "topic": "orders",
    "producerGroup": "shop",
}
_SHOWN_EXAMPLE = {
    "transactionId": _ID_EXAMPLE,
    "state": "open",
    "topic": "orders",
    "producerGroup": "shop",
    "messageId": _MESSAGE_ID,
    "broker": "broker-a",
    "begunTimestamp": "2026-01-01T00:00:00.000Z",
    "ageMs": 40_000,
    "checks": 2,
    "nextCheckAt": "2026-01-01T00:01:06.000Z",
}
_LIST_EXAMPLE = {"transactions": [_SHOWN_EXAMPLE], "truncated": False, "missing": []}
_CHECKS_EXAMPLE = {
    "checks": [{"transactionId": _ID_EXAMPLE, "message": MESSAGE_EXAMPLE, "attempt": 1}],
}

_DECIDE = Details(
    is_body_needed=False,
    body_example={"reason": "decided by hand"},
    reply_description="Its state; the same whether this call or an earlier one decided it.",
    reply_example=_DECIDED_EXAMPLE,
)

TransactionId = Annotated[
    str,
    Meta(
        pattern=ID_PATTERN,
        max_length=ID_CHARS_MAX,
        description="Id of the transaction, as returned by its begin.",
    ),
]
ProducerGroup = Annotated[GroupText, Meta(description="Name of the producer group.")]
ProducerGroupOrAll = Annotated[
    str,
    Meta(
        pattern=GROUP_PATTERN.replace("{1,", "{0,"),
        max_length=GROUP_CHARS_MAX,
        description="Only of this producer group; empty: of all.",
    ),
]


def transaction_routes(
    transactions: Transactions,
    wall_ms: Callable[[], int],
    limits: RateLimits | None,
    ensure_topic: EnsureTopic | None,
    access: Access,
) -> list[Operation]:
    """Return the routes."""
    calls = Operations("transactions")
    _add_begin(calls, transactions, limits, ensure_topic)
    _add_decisions(calls, transactions)
    _add_lists(calls, transactions, wall_ms)
    _add_checks(calls, transactions, access)
    return calls.all


def _add_begin(
    calls: Operations,
    transactions: Transactions,
    limits: RateLimits | None,
    ensure_topic: EnsureTopic | None,
) -> None:
    details = Details(
        body_example=_BEGIN_EXAMPLE,
        reply_description="The message is stored, and delivered once it is committed.",
        reply_example=_BEGUN_EXAMPLE,
    )

    @calls.post(
        "/v1/topics/{topic}/transactions", 400, 403, 404, 413, 415, 422, 429, 504, 507, details=details
    )
    async def begin(call: Call, topic: TopicName, body: BeginRequest) -> TransactionBegun:
        """Begin a transaction: store a message that is invisible until its commit."""
        sendable(topic_of(topic))
        if limits is not None and (wait_ms := await limits.take(call.client, topic, 1)):
            raise rate_limited(wait_ms)
        if ensure_topic is not None:
            await ensure_topic(topic)
        made, result = await transactions.begin(topic, body, trace_properties(call.headers), _name)
        return TransactionBegun(made, result.message_id, result.broker, result.durability, result.duplicate)


def _add_decisions(calls: Operations, transactions: Transactions) -> None:
    @calls.post("/v1/transactions/{id:id}:commit", 400, 403, 404, 409, 413, 415, 507, details=_DECIDE)
    async def commit(call: Call, id_: TransactionId, body: DecideRequest | None = None) -> TransactionDecided:
        """Commit: the message is delivered, or delivered later if it has a delay."""
        return await decide(call, id_, "commit", body)

    @calls.post("/v1/transactions/{id:id}:rollback", 400, 403, 404, 409, 413, 415, 507, details=_DECIDE)
    async def rollback(
        call: Call, id_: TransactionId, body: DecideRequest | None = None
    ) -> TransactionDecided:
        """Roll back: the message is never delivered."""
        return await decide(call, id_, "rollback", body)

    async def decide(
        call: Call, id_: str, decision: Decision, body: DecideRequest | None
    ) -> TransactionDecided:
        reason = "" if body is None else body.reason or ""
        if call.admission is not None:
            call.check_record((await transactions.show(id_)).topic)
        view = await transactions.decide(id_, decision, f"http {call.client} {call.request_id}", reason)
        status: Literal["committed", "rolledBack"] = "committed" if decision == "commit" else "rolledBack"
        return TransactionDecided(status, id_, view.topic, view.producer_group)


def _add_lists(calls: Operations, transactions: Transactions, wall_ms: Callable[[], int]) -> None:
    @calls.get(
        "/v1/transactions",
        400,
        403,
        404,
        details=Details(reply_description="The oldest first.", reply_example=_LIST_EXAMPLE),
    )
    async def list_transactions(
        topic: TopicOrAll = "",
        producer_group: ProducerGroupOrAll = "",
        broker: BrokerOrAll = "",
        state: Annotated[
            Literal["open", "parked", ""],
            Meta(description="Only transactions in this state; empty: both undecided states."),
        ] = "",
        max_: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100,
    ) -> TransactionsReply:
        """List undecided transactions, with their age and number of checks."""
        query = ListTransactions(
            topic=topic_of(topic) if topic else None,
            producer_group=group_of(producer_group) if producer_group else None,
            broker=broker or None,
            state=state or None,
            limit=max_,
        )
        pending = await transactions.pending(query)
        shown = [_shown(view, wall_ms) for view in pending.transactions]
        return TransactionsReply(shown, pending.truncated, pending.missing)

    @calls.get(
        "/v1/transactions/{id:id}",
        400,
        403,
        404,
        details=Details(reply_description="The transaction.", reply_example=_SHOWN_EXAMPLE),
    )
    async def show(call: Call, id_: TransactionId) -> TransactionShown:
        """Show one transaction: open, parked, committed or rolled back."""
        found = await transactions.show(id_)
        call.check_record(found.topic)
        return _shown(found, wall_ms)


def _add_checks(calls: Operations, transactions: Transactions, access: Access) -> None:
    details = Details(
        body_example={"waitSeconds": 20},
        reply_description="The transactions that the group has to decide.",
        reply_example=_CHECKS_EXAMPLE,
    )

    @calls.post(CHECKS[1], 400, 404, 413, 415, details=details)
    async def receive_checks(
        call: Call, group: ProducerGroup, body: ReceiveChecksRequest | None = None
    ) -> ChecksReply:
        """Wait for transactions that a producer group has to decide; each is returned again until it is decided."""
        wanted = body or ReceiveChecksRequest()
        rights = None if call.admission is None else TopicRights(call.check_record)
        since = access.moment
        checks = await transactions.receive_checks(
            group_of(group), wanted.max_checks, wanted.wait_seconds, rights
        )
        if rights is not None and access.moment != since:
            access.check_again(call, CHECKS, {"group": group}, since)
            checks = of_rights(checks, TopicRights(call.check_record))
        return ChecksReply(
            [CheckOut(one.transaction_id, message(one.record, one.broker), one.attempt) for one in checks]
        )


def _shown(view: TransactionView, wall_ms: Callable[[], int]) -> TransactionShown:
    return TransactionShown(
        transaction_id(view.broker, view.key),
        view.state,
        view.topic,
        view.producer_group,
        view.key,
        view.broker,
        rfc3339(view.begun_ms),
        age_ms(view, wall_ms),
        view.checks,
        None if view.next_check_ms is None else rfc3339(view.next_check_ms),
    )


def _name(_place: int, field: str) -> str:
    return f"message.{field}"
