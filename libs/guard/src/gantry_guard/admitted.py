"""A request that was admitted and is answered later: it is decided again then, if users or policies have changed meanwhile.

A pull may be held for minutes. Its user may lose the right, be disabled, expire, or get other secrets in that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gantry_access.entries.table import AccessTable
from gantry_access.evaluation.refusals import REFUSED_CODE, refusal_text
from gantry_access.signatures.signing_key import SigningKey
from gantry_access.texts import CREDENTIALS_WRONG
from gantry_guard.audit import Asked
from gantry_guard.callers import Source
from gantry_guard.refusals import Refusals
from gantry_guard.validators import REASON as VALIDATOR
from gantry_wire.errors import RefusedRequest, WireError


class Admitted:
    """What one request was admitted for."""

    __slots__ = ("_asked", "_keys", "_now_ms", "_refusals", "_source", "_table", "_version")

    def __init__(
        self,
        table: AccessTable,
        refusals: Refusals,
        now_ms: Callable[[], int],
        asked: Asked,
        source: Source,
        keys: Sequence[SigningKey] | None,
    ) -> None:
        """`asked`: the user and what its request required. `now_ms`: wall time. `keys`: the user's, None if no signature proved it."""
        self._table, self._refusals, self._now_ms = table, refusals, now_ms
        self._asked, self._source = asked, source
        self._version = table.version
        self._keys = keys

    def refusal(self) -> WireError | None:
        """Return why the request must not be answered any more, None if it may be. A refusal is noted in the audit log."""
        table, asked, now_ms = self._table, self._asked, self._now_ms()
        account = table.state.find(asked.user)
        if table.version == self._version and account is not None and not account.user.has_expired(now_ms):
            return None
        if self._keys is not None and not _has_one_of(table.signing_keys(asked.user), self._keys):
            return self._refused(CREDENTIALS_WRONG, "wrong_signature")
        verdict = table.state.decide(asked.user, asked.required, self._source.address, now_ms)
        if verdict.is_allowed:
            validators = self._refusals.validators
            refused = None if validators is None else validators.refusal(asked)
            if refused is not None:
                return self._refused(refused.words, VALIDATOR, refused.validator)
            self._version = table.version
            return None
        rule = verdict.deciding
        words = refusal_text(verdict, asked.user, self._source.address)
        return self._refused(words, verdict.reason.value, "" if rule is None else rule.text)

    def _refused(self, words: str, reason: str, rule: str = "") -> WireError | None:
        if self._refusals.permits(self._asked, reason, rule, is_about_access=False):
            return None
        return RefusedRequest(REFUSED_CODE, words)


def _has_one_of(keys: Sequence[SigningKey], earlier: Sequence[SigningKey]) -> bool:
    """Whether a secret of the user is still one that it had. Which of two it was that signed, nobody noted."""
    return any(one.is_same(other) for one in keys for other in earlier)
