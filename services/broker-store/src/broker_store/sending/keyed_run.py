# ruff: noqa: D102 - the Protocols say what these methods promise
"""Fast path of keyed messages that are otherwise plain, as gateways send them. They share one entry of the group commit.

Stores the same bytes, judges keys alike and gives the same remarks as the slow path (`send_handler.py` and
`keyed.py`).
"""

import re
from zlib import crc32

from broker_store.commit.appends import Appends
from broker_store.commit.message import Arrivals, IndexEntry, ReplyTo
from broker_store.commit.targets import Target
from broker_store.ports import Peer
from broker_store.sending.idempotency import Verdict
from broker_store.sending.keyed import Claim, KeyedSends, Repeat, conflict
from broker_store.sending.plain_run import RUN_BYTES_MAX, PlainRun, RecordTemplate
from broker_store.sending.plain_sends import BORN_HOST, PlainSends, born_host
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.properties import GANTRY_KEY, UNIQ_KEY
from gantry_wire.records.message_record import CRC_MASK

_keyed_text = re.compile(f"{UNIQ_KEY}\x01([0-9A-Za-z]+)\x02{GANTRY_KEY}\x01([^\x01\x02]+)\x02").fullmatch
"""Matches properties that are only a unique key, which needs no JSON escaping, and an idempotency key."""
_BEFORE_KEY = len(UNIQ_KEY) + 2
_NO_FIELDS: dict[str, str] = {}
"""Further reply fields of a plain message."""
KEYED_CHARS_MAX = 256
"""Longer properties take the slow path."""


class KeyedRun(PlainRun):
    """Consecutive keyed messages of one client for one topic."""

    __slots__ = ("_claims", "_keyed")

    def __init__(self, peer: ReplyTo, born_host: bytes, target: Target, keyed: KeyedSends) -> None:
        super().__init__(peer, born_host, target)
        self._keyed = keyed
        self._claims: list[Claim] = []

    def add_claim(self, claim: Claim) -> None:
        """Note the claim of the message that was just added."""
        self._claims.append(claim)

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        super().make_visible(index, arrivals)
        places = [(row[2], row[1], (row[0].queue_id, _NO_FIELDS)) for row in self._placed]
        self._keyed.stored_all(self._claims, places, self.store_ms)

    def refuse(self, refusal: RefusedRequest) -> None:
        for claim in self._claims:
            self._keyed.failed(claim)
        super().refuse(refusal)


class PlainKeyed:
    """Collects keyed messages into runs."""

    def __init__(self, plain: PlainSends, keyed: KeyedSends, appends: Appends) -> None:
        self._plain, self._keyed, self._appends = plain, keyed, appends
        self._run: KeyedRun | None = None

    def take_read(self, peer: Peer, command: Command, header: SendHeader, target: Target, text: str) -> bool:
        """Take a keyed message whose header was parsed. False when it needs the slow path. Raises RefusedRequest."""
        found = _keyed_text(text) if len(text) <= KEYED_CHARS_MAX else None
        raw, body = text.encode(), command.body
        if found is None or header.sys_flag or len(body) > self._plain.body_bytes_max:
            return False
        template = self._plain.template(target, header.queue_id, header, command.flag, len(raw))
        if template is None:
            return False
        unique_key, key = found.groups()
        # equals `content_crc` of a message whose sender sets no other property
        crc = crc32(raw[_BEFORE_KEY + len(unique_key) : -1], crc32(body) & CRC_MASK)
        verdict, claim = self._keyed.judge(target.topic, key, crc, unique_key)
        if verdict is Verdict.NEW:
            self._add(peer, template, command.opaque, header.born_timestamp, raw, unique_key, body, claim)
        elif verdict is Verdict.REPEAT:
            asking = None if command.flag & FLAG_ONEWAY else peer
            self._appends.submit(Repeat(target.mode, asking, command.opaque, claim))
        else:
            raise conflict(key)
        return True

    def _add(
        self, peer: Peer, template: RecordTemplate, opaque: int, born_ms: int, text: bytes, unique_key: str, body: bytes,
        claim: Claim,
    ) -> None:  # fmt: skip
        run, target, body_size = self._run, template.target, len(body)
        if (
            run is not None
            and run.peer is peer
            and run.target is target
            and run.size + template.size + body_size <= RUN_BYTES_MAX
            and self._appends.extend(run, body_size)
        ):
            run.add(template, opaque, born_ms, text, unique_key, body)
            run.add_claim(claim)
            return
        host = peer.attributes.get(BORN_HOST) or born_host(peer)
        run = KeyedRun(peer, host, target, self._keyed)
        run.add(template, opaque, born_ms, text, unique_key, body)
        run.add_claim(claim)
        try:
            self._appends.submit(run, body_size)
        except RefusedRequest:
            self._keyed.failed(claim)
            raise
        self._run = run
