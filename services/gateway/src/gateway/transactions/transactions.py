"""Transactions over HTTP: stored as half messages, decided at their broker, listed by the checkers.

A decision goes directly to the broker, so it needs no checker; repeating it changes nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.messages.properties import CHECK_IMMUNITY_TIME, PRODUCER_GROUP, TRANSACTION_PREPARED
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.transactions import (
    DecideTransaction,
    Decision,
    ListTransactions,
    PendingCheck,
    ReceiveChecks,
    TakenCheck,
    TransactionsPage,
    TransactionView,
    split_transaction_id,
    transaction_id,
)
from gantry_wire.records.half_message import sent_message
from gantry_wire.records.message_record import Record, decode_record
from gateway.http.problems import Problem, broker_away, refused
from gateway.messages.schemas import FieldNames, SendResult
from gateway.ports.stores import Broker, PeerAway, StoreRefused
from gateway.ports.transactions import TransactionParties
from gateway.routing.claim_holders import ClaimHolders, is_whole
from gateway.routing.fleet import demand_all
from gateway.send.drafts import Drafting
from gateway.send.sending import Sender
from gateway.transactions.schemas import BeginRequest

TURN_SECONDS = 5.0
"""Interval at which a held receive checks whether another checker has taken over."""
PAUSE_SECONDS = 0.25


class Pending(NamedTuple):
    """Undecided transactions, the oldest first; `missing` brokers could not be asked."""

    transactions: list[TransactionView]
    truncated: bool
    missing: list[str]


class Check(NamedTuple):
    """A transaction that its producer has to decide; `record` is its message as it was sent."""

    broker: str
    key: str
    attempt: int
    record: Record

    @property
    def transaction_id(self) -> str:
        """Its id outside its broker."""
        return transaction_id(self.broker, self.key)

    @property
    def topic(self) -> str:
        """The message's topic."""
        return self.record.topic.decode()


class _Found(NamedTuple):
    """What checkers have for a producer group."""

    checks: Sequence[PendingCheck]
    topics: Sequence[str]
    """Topics of other transactions, to look up whether the caller may decide them."""


_NOTHING = _Found((), ())


class TopicRights:
    """The topics of a producer group that a caller may decide, and those that it may not, as far as they were looked up."""

    def __init__(self, check: Callable[[str], None]) -> None:
        """`check` raises a problem for a topic without the right."""
        self._check = check
        self.permitted: dict[str, None] = {}
        self.refused: dict[str, Problem] = {}

    def look_up(self, topics: Iterable[str]) -> bool:
        """Find out about topics, and return whether there were new ones. Raises the problem if all that are known are refused."""
        new = [topic for topic in topics if topic not in self.permitted and topic not in self.refused]
        for topic in new:
            try:
                self._check(topic)
                self.permitted[topic] = None
            except Problem as problem:
                self.refused[topic] = problem
        if new and not self.permitted:
            raise self.refused[new[-1]]
        return bool(new)


class Transactions:
    """The operations on transactions."""

    def __init__(
        self, sender: Sender, drafting: Drafting, claim_holders: ClaimHolders, parties: TransactionParties
    ) -> None:
        self._sender, self._drafting = sender, drafting
        self._claim_holders, self._parties = claim_holders, parties
        self._draining = asyncio.Event()
        self.begun = 0

    def drain(self) -> None:
        """Answer all held receives now, and hold none from now on."""
        self._draining.set()

    async def begin(
        self, topic: str, request: BeginRequest, trace: str, name_of: FieldNames
    ) -> tuple[str, SendResult]:
        """Store the half message; return the transaction's id. Raises a problem."""
        (draft,) = self._drafting.drafts([request.message], trace, name_of)
        draft.properties += (
            f"{TRANSACTION_PREPARED}\x01true\x02{PRODUCER_GROUP}\x01{request.producer_group}\x02"
        )
        if request.check_after_seconds is not None:
            draft.properties += f"{CHECK_IMMUNITY_TIME}\x01{request.check_after_seconds}\x02"
        (result,) = await self._sender.send(topic, [draft])
        if isinstance(result, Problem):
            raise result
        self.begun += 1
        return transaction_id(result.broker, result.message_id), result

    async def decide(self, text: str, decision: Decision, by: str, reason: str) -> TransactionView:
        """Commit or roll back; the first decision wins. Raises a problem: 409 after the opposite decision, 404, 503."""
        broker, key = await self._place(text)
        order = DecideTransaction(key=key, decision=decision, by=by, reason=reason)
        try:
            return await self._parties.decide(broker, order)
        except StoreRefused as error:
            raise _problem(text, error) from error
        except PeerAway as error:
            raise broker_away(broker.name) from error  # also after the request was sent: repeating it is safe

    async def show(self, text: str) -> TransactionView:
        """Return the state of a transaction. Raises a problem."""
        broker, key = await self._place(text)
        try:
            view = await self._parties.state(broker, key)
        except StoreRefused as error:
            raise _problem(text, error) from error
        except PeerAway as error:
            raise broker_away(broker.name) from error
        view.broker = broker.name
        return view

    async def pending(self, query: ListTransactions) -> Pending:
        """Return undecided transactions. Raises a problem if no broker could be asked."""
        brokers, gone = await self._claim_holders.brokers(query.broker)

        async def of(broker: Broker) -> TransactionsPage:
            one = msgspec.structs.replace(query, broker=broker.name)
            return await self._claim_holders.ask(
                broker,
                HALF_TOPIC,
                lambda address: self._parties.at(address).transactions(one),
                is_ready=lambda page: is_whole(page, broker.name),
            )

        answers = await asyncio.gather(*(of(broker) for broker in brokers), return_exceptions=True)
        found: list[TransactionView] = []
        is_cut = False
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, Problem):
                gone.append(broker.name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer.transactions
                is_cut = is_cut or answer.truncated
        if all(isinstance(answer, Problem) for answer in answers):
            causes = [f" ({answer.detail})" for answer in answers if isinstance(answer, Problem)]
            demand_all(gone, f"open transactions cannot be listed{causes[0] if causes else ''}")
        found.sort(key=lambda view: (view.begun_ms, view.key))
        return Pending(found[: query.limit], is_cut or len(found) > query.limit, sorted(set(gone)))

    async def receive_checks(
        self,
        group: str,
        count_max: int,
        wait_seconds: float,
        rights: TopicRights | None,
        taken: list[TakenCheck] | None = None,
    ) -> list[Check]:
        """Return the transactions that a producer group has to decide; held while there are none, or no checker.

        Only those whose topics the caller may decide. Raises a problem if there are others only. `rights`: None for all topics.
        With `taken`, each check is returned only while no caller has taken it: those in the list, the caller takes.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_seconds
        while True:
            left_s = max(end_s - loop.time(), 0.0)
            query = ReceiveChecks(
                producer_group=group,
                max=count_max,
                wait_ms=int(min(left_s, TURN_SECONDS) * 1000),
                taken=taken,
            )
            found = await self._checks(query, left_s, rights)
            if rights is not None and rights.look_up(found.topics):
                continue  # the checker has returned none of these yet, also if the time is over
            if found.checks or loop.time() >= end_s or self._draining.is_set():
                return of_rights([_read(check) for check in found.checks[:count_max]], rights)

    async def _checks(self, query: ReceiveChecks, left_s: float, rights: TopicRights | None) -> _Found:
        """Ask every checker once, held for one interval; return as soon as one has transactions, or topics to look up."""
        brokers, _gone = await self._claim_holders.brokers()
        holders = await asyncio.gather(*(self._holder(broker) for broker in brokers))
        addresses = {address for address in holders if address is not None}
        if rights is not None:
            query.topics, query.refused = [*rights.permitted], [*rights.refused]

        async def ask(address: str) -> _Found:
            try:
                page = await self._parties.at(address).receive_checks(query)
                return _Found(page.checks, page.undecided_topics)
            except (StoreRefused, PeerAway):
                for broker in brokers:
                    self._claim_holders.forget(broker, HALF_TOPIC)
                await asyncio.sleep(min(left_s, PAUSE_SECONDS))
                return _NOTHING

        if not addresses:
            await self._pause(min(left_s, PAUSE_SECONDS))
            return _NOTHING
        return await self._first([ask(address) for address in addresses])

    async def _first(self, asked: list[Coroutine[Any, Any, _Found]]) -> _Found:
        """Return what the checkers have that respond first with anything; nothing once all responded, or while draining."""
        tasks = [asyncio.ensure_future(one) for one in asked]
        draining = asyncio.ensure_future(self._draining.wait())
        waiting: set[asyncio.Future[Any]] = {*tasks, draining}
        try:
            while len(waiting) > 1 and not draining.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                pages = [task.result() for task in tasks if task in done]
                checks = [check for page in pages for check in page.checks]
                topics = [topic for page in pages for topic in page.topics]
                if checks or topics:
                    return _Found(checks, topics)
            return _NOTHING
        finally:
            left = [*tasks, draining]
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    async def _holder(self, broker: Broker) -> str | None:
        try:
            return await self._claim_holders.address(broker, HALF_TOPIC)
        except (StoreRefused, PeerAway):
            return None

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        except TimeoutError:
            pass

    async def _place(self, text: str) -> tuple[Broker, str]:
        """Return broker and key of an id; raise 404 if it is invalid, or its broker is unknown."""
        found = split_transaction_id(text)
        if found is None:
            raise _missing(text)
        try:
            return await self._claim_holders.broker(found[0]), found[1]
        except Problem as problem:
            if problem.status == 404:
                raise _missing(text) from problem
            raise


def age_ms(view: TransactionView, wall_ms: Callable[[], int]) -> int:
    """Return the age of a transaction; 0 if clocks disagree."""
    return max(wall_ms() - view.begun_ms, 0)


def of_rights(checks: list[Check], rights: TopicRights | None) -> list[Check]:
    """Return the checks whose messages the caller may decide. A checker of an earlier version returns others, too.

    Raises a problem if there are others only.
    """
    if rights is None:
        return checks
    rights.look_up(check.topic for check in checks)
    return [check for check in checks if check.topic in rights.permitted]


def _read(check: PendingCheck) -> Check:
    try:
        record = decode_record(sent_message(check.record))
    except WireError as error:
        raise refused(
            StoreRefused(ResponseCode.SYSTEM_ERROR, f"a half message is damaged: {error}")
        ) from error
    return Check(check.broker, check.key, check.attempt, record)


def _missing(text: str) -> Problem:
    return Problem(404, "QUERY_NOT_FOUND", f"there is no transaction {text}", field="id")


def _problem(text: str, error: StoreRefused) -> Problem:
    if error.gantry_code == "TRANSACTION_DECIDED":
        return Problem(409, "TRANSACTION_DECIDED", error.remark, field="id")
    if error.code == ResponseCode.QUERY_NOT_FOUND:
        return _missing(text)
    if error.code == ResponseCode.TOPIC_NOT_EXIST:  # 404 would say that there is no such transaction
        return Problem(409, "TOPIC_NOT_EXIST", error.remark, field="topic")
    return refused(error)
