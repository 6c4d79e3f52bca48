"""Transactions: begin, commit, roll back, show, list; and the checks that a producer group has to answer."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from gantry_wire.transaction_bodies import (
    PAGE_MAX,
    Decision,
    ListTransactions,
    TransactionView,
    transaction_id,
)
from gateway.http.call import Call
from gateway.http.problems import rate_limited
from gateway.http.trace import trace_properties
from gateway.messages.examples import MESSAGE_EXAMPLE
from gateway.messages.message_view import rfc3339
from gateway.ports.stores import RateLimits
from gateway.requests.checks import group_of, sendable, topic_of
from gateway.requests.json_bodies import read_json
from gateway.requests.models import GROUP_PATTERN
from gateway.requests.parameters import (
    ID_PATTERN,
    BrokerOrAll,
    TopicOrAll,
    TopicPath,
    answers,
    problems,
)
from gateway.send.routes import EnsureTopic
from gateway.transactions.schemas import (
    BeginRequest,
    ChecksReply,
    DecideRequest,
    ReceiveChecksRequest,
    TransactionBegun,
    TransactionDecided,
    TransactionShown,
    TransactionsReply,
)
from gateway.transactions.transactions import Transactions, age_ms

ID_CHARS_MAX = 1024
_MESSAGE_ID = "7F0000010A1B00000000000012345678"
_ID_EXAMPLE = f"broker-a.{_MESSAGE_ID}"
_DECIDED = "What it is now; the same whether this call decided it or an earlier one."
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

TransactionPath = Annotated[
    str,
    Path(
        pattern=ID_PATTERN,
        max_length=ID_CHARS_MAX,
        description="Id of the transaction, as its begin gave it.",
    ),
]
ProducerPath = Annotated[
    str, Path(pattern=GROUP_PATTERN, max_length=120, description="Name of the producer group.")
]
GroupOrAll = Annotated[
    str,
    Query(
        alias="producerGroup",
        pattern=GROUP_PATTERN.replace("{1,", "{0,"),
        max_length=120,
        description="Only of this producer group; empty: of all.",
    ),
]
_read_begin = msgspec.json.Decoder(BeginRequest).decode
_read_reason = msgspec.json.Decoder(DecideRequest).decode
_read_receive = msgspec.json.Decoder(ReceiveChecksRequest).decode


def transaction_routes(
    transactions: Transactions,
    wall_ms: Callable[[], int],
    limits: RateLimits | None,
    ensure_topic: EnsureTopic | None,
) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["transactions"])
    _add_begin(router, transactions, limits, ensure_topic)
    _add_decisions(router, transactions)
    _add_lists(router, transactions, wall_ms)
    _add_checks(router, transactions)
    return router


def _add_begin(
    router: APIRouter,
    transactions: Transactions,
    limits: RateLimits | None,
    ensure_topic: EnsureTopic | None,
) -> None:
    @router.post(
        "/v1/topics/{topic}/transactions",
        responses=problems(400, 403, 404, 413, 415, 422, 429, 504, 507)
        | _answers(
            "TransactionBegun", "The message is stored, and delivered once it is committed.", _BEGUN_EXAMPLE
        ),
        openapi_extra=_body("BeginRequest", _BEGIN_EXAMPLE),
        response_class=Response,
    )
    async def begin(topic: TopicPath, request: Request) -> Response:
        """Begin a transaction: store a message that nobody sees before its commit."""
        call: Call = request.scope["gateway.call"]
        sendable(topic_of(topic))
        wanted = read_json(_read_begin, await request.body())
        if limits is not None and (wait_ms := await limits.take(call.client, topic, 1)):
            raise rate_limited(wait_ms)
        if ensure_topic is not None:
            await ensure_topic(topic)
        made, result = await transactions.begin(topic, wanted, trace_properties(call.headers), _name)
        begun = TransactionBegun(made, result.message_id, result.broker, result.durability, result.duplicate)
        return _json(begun)


def _add_decisions(router: APIRouter, transactions: Transactions) -> None:
    @router.post(
        "/v1/transactions/{id:id}:commit",
        responses=problems(400, 403, 404, 409, 413, 415, 507)
        | _answers("TransactionDecided", _DECIDED, _DECIDED_EXAMPLE),
        openapi_extra=_body("DecideRequest", {"reason": "paid, says the bank"}, required=False),
        response_class=Response,
    )
    async def commit(id: TransactionPath, request: Request) -> Response:  # noqa: A002 - the name in the path
        """Commit: the message is delivered, or begins to wait where it has a delay."""
        return await decide(id, "commit", request)

    @router.post(
        "/v1/transactions/{id:id}:rollback",
        responses=problems(400, 403, 404, 409, 413, 415, 507)
        | _answers("TransactionDecided", _DECIDED, _DECIDED_EXAMPLE),
        openapi_extra=_body("DecideRequest", {"reason": "never paid"}, required=False),
        response_class=Response,
    )
    async def rollback(id: TransactionPath, request: Request) -> Response:  # noqa: A002 - the name in the path
        """Roll back: the message is never delivered."""
        return await decide(id, "rollback", request)

    async def decide(text: str, decision: Decision, request: Request) -> Response:
        call: Call = request.scope["gateway.call"]
        body = await request.body()
        reason = (read_json(_read_reason, body).reason or "") if body else ""
        view = await transactions.decide(text, decision, f"http {call.client} {call.request_id}", reason)
        status: Literal["committed", "rolledBack"] = "committed" if decision == "commit" else "rolledBack"
        return _json(TransactionDecided(status, text, view.topic, view.producer_group))


def _add_lists(router: APIRouter, transactions: Transactions, wall_ms: Callable[[], int]) -> None:
    @router.get(
        "/v1/transactions",
        responses=problems(400, 403, 404) | _answers("TransactionsReply", "The oldest first.", _LIST_EXAMPLE),
        response_class=Response,
    )
    async def list_transactions(
        topic: TopicOrAll = "",
        producer_group: GroupOrAll = "",
        broker: BrokerOrAll = "",
        state: Annotated[
            Literal["open", "parked", ""],
            Query(description="Only those in this state; empty: both that are undecided."),
        ] = "",
        count_max: Annotated[int, Query(alias="max", ge=1, le=PAGE_MAX)] = 100,
    ) -> Response:
        """List transactions that are not decided, with their age and how often their producer was asked."""
        query = ListTransactions(
            topic=topic_of(topic) if topic else None,
            producer_group=group_of(producer_group) if producer_group else None,
            broker=broker or None,
            state=state or None,
            limit=count_max,
        )
        pending = await transactions.pending(query)
        shown = [_shown(view, wall_ms) for view in pending.transactions]
        return _json(TransactionsReply(shown, pending.truncated, pending.missing))

    @router.get(
        "/v1/transactions/{id:id}",
        responses=problems(400, 403, 404) | _answers("TransactionShown", "The transaction.", _SHOWN_EXAMPLE),
        response_class=Response,
    )
    async def show(id: TransactionPath) -> Response:  # noqa: A002 - the name in the path
        """Show one transaction: open, given up, or how it was decided."""
        return _json(_shown(await transactions.show(id), wall_ms))


def _add_checks(router: APIRouter, transactions: Transactions) -> None:
    @router.post(
        "/v1/producerGroups/{group}/checks:receive",
        responses=problems(400, 404, 413, 415)
        | _answers("ChecksReply", "What the group has to decide.", _CHECKS_EXAMPLE),
        openapi_extra=_body("ReceiveChecksRequest", {"waitSeconds": 20}, required=False),
        response_class=Response,
    )
    async def receive_checks(group: ProducerPath, request: Request) -> Response:
        """Wait for transactions of a producer group that have to be decided; each is listed until it is."""
        body = await request.body()
        wanted = read_json(_read_receive, body) if body else ReceiveChecksRequest()
        checks = await transactions.receive_checks(group_of(group), wanted.max_checks, wanted.wait_seconds)
        return _json(ChecksReply(checks))


def _answers(schema: str, words: str, example: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    entry = answers(schema, words)
    entry[200]["content"]["application/json"]["example"] = example
    return entry


def _body(schema: str, example: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


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


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
