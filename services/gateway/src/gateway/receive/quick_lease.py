"""Receives and acknowledgements without a task: from a known head and a body to a frame for the store, and from its answer to ours.

Every check is the plain way's own. What is refused, or has to wait for anything but one store's answer, is left to the plain way
before anything was done; what the store refuses, does not answer, or has too little of, goes on there. Saves a receive or an
acknowledgement of 32 about 90 us.
"""

from functools import partial
from typing import Any

from gantry_wire.lease_headers import ItemStatus
from gateway.connection.quick_answer import Begin, QuickAnswers
from gateway.connection.request_io import Cycle
from gateway.http.call import Call, Reply, takes_gzip
from gateway.http.problems import Problem
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.receive.receiving import Begun, Brokers
from gateway.receive.routes import LeaseRoutes, check_names, read_ack, read_receive
from gateway.requests.limits import ITEMS_MAX
from gateway.requests.media_types import JSON_TYPE, media_type_of

RECEIVE, ACK = "messages:receive", "messages:ack"
_ACKED = b'{"status":"acked"}'
_DONE = bytes((ItemStatus.DONE,))


class QuickLeases:
    """Begins receives of a group's own filter, and acknowledgements of one broker's messages."""

    def __init__(self, routes: LeaseRoutes, answers: QuickAnswers, *, is_limited: bool) -> None:
        self.routes, self.answers, self._is_limited = routes, answers, is_limited
        self.receiver, self.acker = routes.receive.receiver, routes.ack.acker

    def learn(self, scope: dict[str, Any]) -> Begin | None:
        """Return how requests of this scope begin; None where they are for the plain way."""
        parts = scope["path"].split("/")
        access = self.answers.access
        if len(parts) != 7 or self._is_limited or access.has_origins:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        topic, group, verb = parts[3], parts[5], parts[6]
        try:
            check_names(topic, group)
            access.check(scope["method"], scope["path"], headers)
        except Problem:
            return None
        if media_type_of(headers) != JSON_TYPE:
            return None
        begin = {RECEIVE: self._receive, ACK: self._ack}.get(verb)
        return None if begin is None else partial(begin, topic, group, takes_gzip(headers))

    def _receive(self, topic: str, group: str, may_pack: bool, cycle: Cycle, body: bytes) -> bool:
        started = self.answers.clock()
        try:
            request = read_receive(body)
        except Problem:
            return False
        if request.filter is not None or request.change_filter:
            return False
        ask = ReceiveAsk(topic, group, request.max_messages, request.invisible_seconds * 1000)
        receiving = _Receiving(self, cycle, ask, request.wait_seconds, started, may_pack=may_pack)
        return self.receiver.begin(ask, receiving.told)

    def _ack(self, topic: str, group: str, may_pack: bool, cycle: Cycle, body: bytes) -> bool:
        started = self.answers.clock()
        try:
            request = read_ack(body)
        except Problem:
            return False
        count = len(request.acks)
        if request.nacks or not 1 <= count <= ITEMS_MAX:
            return False
        handles = [one.receipt_handle for one in request.acks]

        def told(broker: str, outcome: bytes | Exception) -> None:
            if isinstance(outcome, bytes) and outcome == _DONE * count:
                answer = b'{"results":[' + b",".join([_ACKED] * count) + b"]}\n"
                if self.answers.write_json(cycle, answer, ACK, started, may_pack=may_pack):
                    self.routes.ack.messages += count
                    return
            self.answers.later(cycle, ACK, partial(self._go_on_acking, topic, broker, count, outcome))

        return self.acker.begin_ack(topic, group, handles, told)

    async def _go_on_acking(
        self, topic: str, broker: str, count: int, outcome: bytes | Exception, _call: Call
    ) -> Reply:
        return self.routes.ack.reply(self.acker.acked(topic, broker, count, outcome))


class _Receiving:
    """One receive that waits for its first store."""

    __slots__ = ("_ask", "_cycle", "_leases", "_may_pack", "_started", "_wait_seconds")

    def __init__(
        self,
        leases: QuickLeases,
        cycle: Cycle,
        ask: ReceiveAsk,
        wait_seconds: float,
        started: float,
        *,
        may_pack: bool,
    ) -> None:
        self._leases, self._cycle, self._ask = leases, cycle, ask
        self._wait_seconds, self._started, self._may_pack = wait_seconds, started, may_pack

    def told(self, brokers: Brokers, outcome: Leased | Exception) -> None:
        """Take the store's answer; what it gave is given back where it reaches nobody."""
        leases, cycle = self._leases, self._cycle
        if isinstance(outcome, Leased) and not cycle.is_lost:
            try:
                batch = leases.receiver.batch_of(self._ask, brokers, outcome)
            except Problem:
                batch = None  # records that are damaged: the plain way says so
            if batch is not None and leases.answers.write_json(
                cycle, batch.json(), RECEIVE, self._started, may_pack=self._may_pack
            ):
                leases.routes.receive.messages += batch.count
                if cycle.is_lost:
                    batch.give_back()
                return
        leases.answers.later(cycle, RECEIVE, partial(self._go_on, Begun(brokers, outcome)))

    async def _go_on(self, begun: Begun, call: Call) -> Reply:
        left = max(0.0, self._wait_seconds - (self._leases.answers.clock() - self._started))
        leases = self._leases
        return leases.routes.receive.reply(await leases.receiver.receive(self._ask, left, call.gone, begun))
