"""Ordinary decisions of one turn of the loop, collected into one entry of the group commit."""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.settling.request.item_decisions import SettleEntry
from broker_store.settling.request.items import Gathered
from broker_store.settling.settling import Settling
from broker_store.transactions.end_transaction.decision_records import HALF_SOURCE
from broker_store.transactions.end_transaction.decision_run import Asked, DecisionRun, Ordinary
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.private_requests.settling import SettleResult

ENTRY_BYTES_MAX = 4 * 1024 * 1024
ENTRY_ITEMS_MAX = 4096
TRIES_MAX = 16
"""A batch is refused as busy while the next segment cannot be opened.

The decision is retried: a one-way decision is never repeated, and its producer would have to be checked.
"""

Done = Callable[[SettleResult | RefusedRequest], None]


class TurnBatch:
    """Collects decisions until the group commit places the entry, then starts a new one."""

    def __init__(self, settling: Settling, appends: Appends) -> None:
        self._settling = settling
        self._appends = appends
        self._run: DecisionRun | None = None
        self._bytes = 0

    def add(self, row: Ordinary, asked: Asked) -> bool:
        """Add an ordinary decision.

        False when its half is in the batch already. Raises RefusedRequest when none can be taken now.
        """
        run, half = self._run, row.half
        if run is None or self._bytes > ENTRY_BYTES_MAX or len(run.rows) >= ENTRY_ITEMS_MAX:
            self._settling.refuse_unless_able()  # once per entry: if the log stops meanwhile, the entry is refused
            run = self._begin(asked)
        elif half.offset in run.rows:
            return False
        run.rows[half.offset] = row
        self._bytes += half.size
        return True

    def settle(self, item: Gathered, size: int, done: Done) -> None:
        """Decide a half on the slow path, after everything that came before.

        Calls `done` once, in the loop. Raises as `add`.
        """
        self._settling.refuse_unless_able()
        self._run = None  # later decisions start a new run
        self._enqueue(item, size, done, TRIES_MAX)

    def _begin(self, asked: Asked) -> DecisionRun:
        tries = TRIES_MAX

        def placing() -> None:
            """Close the run: the group commit is about to place it, or refused it."""
            if self._run is run:
                self._run = None

        def retry(refusal: RefusedRequest) -> bool:
            nonlocal tries
            tries -= 1
            if refusal.code != ResponseCode.SYSTEM_BUSY or tries <= 0:
                return False
            self._appends.enqueue(run)
            return True

        run = self._run = DecisionRun(self._settling, asked, placing, retry)
        self._bytes = 0
        self._appends.enqueue(run)
        return run

    def _enqueue(self, item: Gathered, size: int, done: Done, tries: int) -> None:
        def answered(results: list[SettleResult] | RefusedRequest) -> None:
            if not isinstance(results, RefusedRequest):
                done(results[0])
            elif results.code == ResponseCode.SYSTEM_BUSY and tries > 1:
                self._enqueue(item, size, done, tries - 1)
            else:
                done(results)

        self._appends.enqueue(SettleEntry(self._settling, HALF_SOURCE, [item], None, answered), size)
