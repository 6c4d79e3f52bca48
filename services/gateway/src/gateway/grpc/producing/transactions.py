"""EndTransaction: producers decide their transactions.

The log knows every transaction, so its id is valid at every gateway for as long as its messages are kept.
"""

from typing import Final

from gantry_wire.private_requests.transactions import Decision
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused, status
from gateway.grpc.messages.checked_names import topic_of
from gateway.grpc.proto.enums import Code, TransactionResolution, TransactionSource
from gateway.grpc.proto.sending import EndTransactionRequest, EndTransactionResponse
from gateway.http.problems import Problem
from gateway.transactions.transactions import Transactions

CLIENT_CHARS_MAX: Final = 128
"""Characters of a client's id that are kept with its decision."""

_DECISIONS: dict[int, Decision] = {
    TransactionResolution.COMMIT: "commit",
    TransactionResolution.ROLLBACK: "rollback",
}


class EndsTransactions:
    """The decisions of producers."""

    def __init__(self, transactions: Transactions, *, checks_topics: bool) -> None:
        """With `checks_topics`, a transaction must be one of the request's topic, for which the client has the right."""
        self._transactions, self._checks_topics = transactions, checks_topics

    async def end(self, caller: Caller, request: EndTransactionRequest) -> EndTransactionResponse:
        """Commit or roll back; the first decision wins, and repeating it changes nothing. An undecided producer changes nothing either.

        Raises Refused for an unknown transaction, and a Problem after the opposite decision, or while its broker is away.
        """
        topic, id_ = topic_of(request.topic, caller.namespace), request.transaction_id
        if not id_ or id_.isspace():
            raise Refused(Code.INVALID_TRANSACTION_ID, "the transaction id is blank")
        decision = _DECISIONS.get(request.resolution)
        if decision is not None:
            try:
                await self._decide(topic, id_, decision, _author(caller, request.source))
            except Problem as problem:
                if problem.code == "QUERY_NOT_FOUND":
                    raise Refused(Code.INVALID_TRANSACTION_ID, problem.detail) from problem
                raise
        return EndTransactionResponse(status=status(Code.OK))

    async def _decide(self, topic: str, id_: str, decision: Decision, by: str) -> None:
        if self._checks_topics and (await self._transactions.show(id_)).topic != topic:
            raise Refused(
                Code.INVALID_TRANSACTION_ID, f"there is no transaction {id_} of a message to topic {topic}"
            )
        await self._transactions.decide(id_, decision, by, "")


def _author(caller: Caller, source: int) -> str:
    """Return who decides, for the audit record."""
    cause = " after a check" if source == TransactionSource.SOURCE_SERVER_CHECK else ""
    return f"grpc {caller.address} {caller.client_id[:CLIENT_CHARS_MAX]}{cause}"
