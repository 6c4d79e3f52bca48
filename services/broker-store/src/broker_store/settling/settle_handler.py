"""Requests 9001 to 9006 and 9040: claims, settling, and queries about both.

For Gantry's own services; parse, call, reply.
"""

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from broker_store.ports import Commands, Peer
from broker_store.settling.settling import Settling
from gantry_link.serving.vouching import vouched_address
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.limits import INT32_MAX
from gantry_wire.names import check_group
from gantry_wire.private_requests.settling import (
    CLAIM_QUEUES_MAX,
    CLAIM_TTL_MS_MAX,
    CLAIM_TTL_MS_MIN,
    ClaimBody,
    ClaimHeader,
    ClaimHolderHeader,
    ClaimHolderReplyHeader,
    ClaimQueue,
    ClaimReplyBody,
    GrantedClaim,
    MessageEvent,
    MessageEventsBody,
    MessageEventsHeader,
    ReleaseClaimHeader,
    SettleBody,
    SettledStateBody,
    SettledStateHeader,
    SettleHeader,
    SettleReplyBody,
    SettleResult,
    StoreTimeReplyHeader,
    decode_json,
)

RANGES_MAX = 50_000
"""Ranges of settled offsets per answer: about a megabyte."""
NAME_CHARS_MAX = 255

GiveEvents = Callable[[str, int, int], Iterable[MessageEvent]]
"""Returns what a part of the store knows about one message (topic, queue id, offset)."""

_encode = msgspec.json.Encoder().encode


class SettlingHandlers:
    """Handlers of this family. Other parts of the store add sources of message events to `events`."""

    def __init__(self, settling: Settling, now_ms: Callable[[], int], *, any_host: bool) -> None:
        """With `any_host` a claim may name the address of any host as its owner's."""
        self._any_host = any_host
        self._settling = settling
        self._now_ms = now_ms
        self.events: list[GiveEvents] = [self._settled_events]

    def commands(self) -> Commands:
        """Return the table entries of this family."""
        return {
            GantryCode.CLAIM_QUEUES: ("clientManager", self.claim),
            GantryCode.RELEASE_CLAIM: ("clientManager", self.release),
            GantryCode.SETTLE: ("endTransaction", self.settle),
            GantryCode.SETTLED_STATE: ("adminBroker", self.state),
            GantryCode.CLAIM_HOLDER: ("clientManager", self.holder),
            GantryCode.STORE_TIME: ("clientManager", self.time),
            GantryCode.MESSAGE_EVENTS: ("query", self.message_events),
        }

    def claim(self, peer: Peer, command: Command) -> bytes:
        """Grant or renew the claims on several queues: all of them or none.

        HELD names the holder by the host that its claim came from, whatever address it gave.
        """
        header = command.read(ClaimHeader)
        group = _group(header)
        _check_owner(header)
        keys = self._existing(decode_json(command.body, ClaimBody).queues)
        settling, now_ms = self._settling, self._now_ms()
        address = header.address if self._any_host else vouched_address(header.address, peer.remote[0])
        try:
            granted = settling.claims.claim(
                keys,
                header.owner,
                address,
                header.ttl_ms,
                peer.id,
                settling.mono_ms(),
            )
        except RefusedRequest as refusal:
            fields = refusal.fields or {}
            fields["untilMs"] = str(now_ms + int(fields.pop("leftMs", "0")))
            raise
        claims = [
            GrantedClaim(claim.epoch, *settling.state_of((*key, group)))
            for key, claim in zip(keys, granted, strict=True)
        ]
        body = ClaimReplyBody(claims, now_ms)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=_encode(body))

    def _existing(self, queues: list[ClaimQueue]) -> list[tuple[str, int]]:
        """Return the queues of a claim. Raises RefusedRequest before any claim is granted."""
        if not 0 < len(queues) <= CLAIM_QUEUES_MAX:
            raise _invalid(f"a request claims 1 to {CLAIM_QUEUES_MAX} queues, this one {len(queues)}")
        keys = [_queue(queue) for queue in queues]
        for topic, queue_id in keys:
            if not self._settling.has_queue(topic, queue_id):
                raise RefusedRequest(
                    ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, or has no queue {queue_id}"
                )
        return keys

    def release(self, _peer: Peer, command: Command) -> bytes:
        """End a claim. An ended one is no error."""
        header = command.read(ReleaseClaimHeader)
        self._settling.claims.release(_queue(header), header.epoch)
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    def settle(self, peer: Peer, command: Command) -> None:
        """Decide items. Answers when they are as durable as the outputs' topics promise."""
        header = command.read(SettleHeader)
        (topic, queue_id), group = _queue(header), _group(header)
        items = decode_json(command.body, SettleBody).items
        opaque, settling = command.opaque, self._settling

        def done(result: list[SettleResult] | RefusedRequest) -> None:
            if isinstance(result, RefusedRequest):
                frame = encode_response(result.code, opaque, result.fields, remark=result.remark)
            else:
                cursor = settling.table.cursor((topic, queue_id, group))
                body = SettleReplyBody(result, self._now_ms(), cursor)
                frame = encode_response(ResponseCode.SUCCESS, opaque, body=_encode(body))
            if not command.is_oneway and not peer.is_closing:
                peer.send(frame)

        settling.settle(topic, queue_id, group, header.epoch, items, done)

    def state(self, _peer: Peer, command: Command) -> bytes:
        """Return which items of a queue are decided."""
        header = command.read(SettledStateHeader)
        source = (*_queue(header), _group(header))
        cursor, max_offset = self._settling.state_of(source)
        ranges = self._settling.table.of(source).ranges(header.from_offset)
        settled = list(islice(ranges, RANGES_MAX + 1))
        following = settled.pop()[0] if len(settled) > RANGES_MAX else None
        body = SettledStateBody(cursor, max_offset, self._now_ms(), settled, following)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=_encode(body))

    def holder(self, _peer: Peer, command: Command) -> bytes:
        """Return the holder of a queue's claim."""
        settling = self._settling
        now_ms = settling.mono_ms()
        claim = settling.claims.holder(_queue(command.read(ClaimHolderHeader)), now_ms)
        reply = ClaimHolderReplyHeader()
        if claim is not None:
            until_ms = self._now_ms() + claim.until_ms - now_ms
            reply = ClaimHolderReplyHeader(
                held_by=claim.shown_owner, address=claim.address, until_ms=until_ms
            )
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply)

    def time(self, _peer: Peer, command: Command) -> bytes:
        """Return the store's time, and whether items must be rolled forward."""
        reply = StoreTimeReplyHeader(
            store_time_ms=self._now_ms(),
            wall_time_ms=self._settling.clock.wall_ms(),
            roll_below=self._settling.roll_below(),
            delay_queues=self._settling.delay_queues(),
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply)

    def message_events(self, _peer: Peer, command: Command) -> bytes:
        """Return what is known about one message beside its record."""
        header = command.read(MessageEventsHeader)
        topic, queue_id = _queue(header)
        events = [event for give in self.events for event in give(topic, queue_id, header.offset)]
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=_encode(MessageEventsBody(events)))

    def _settled_events(self, topic: str, queue_id: int, offset: int) -> Iterable[MessageEvent]:
        table = self._settling.table
        for group in table.groups(topic, queue_id):
            source = (topic, queue_id, group)
            if not table.is_settled(source, offset):
                continue
            known = table.decision(source, offset)
            event = MessageEvent("settled", group=group or None)
            if known is not None:
                event.time_ms, event.outcome, event.outputs = (
                    known.time_ms,
                    known.outcome or None,
                    known.outputs,
                )
            yield event


def _queue(
    header: ClaimQueue
    | ReleaseClaimHeader
    | SettleHeader
    | SettledStateHeader
    | ClaimHolderHeader
    | MessageEventsHeader,
) -> tuple[str, int]:
    if not 0 < len(header.topic) <= NAME_CHARS_MAX or ":" in header.topic:
        raise _invalid(f"the topic has 1 to {NAME_CHARS_MAX} characters and no colon")
    if not 0 <= header.queue_id <= INT32_MAX:
        raise _invalid(f"queueId {header.queue_id} is negative")
    return header.topic, header.queue_id


def _check_owner(header: ClaimHeader) -> None:
    if not 0 < len(header.owner) <= NAME_CHARS_MAX or len(header.address) > NAME_CHARS_MAX:
        raise _invalid(f"owner and address have at most {NAME_CHARS_MAX} characters, an owner at least one")
    if not CLAIM_TTL_MS_MIN <= header.ttl_ms <= CLAIM_TTL_MS_MAX:
        raise _invalid(f"ttlMs {header.ttl_ms} lies outside {CLAIM_TTL_MS_MIN} to {CLAIM_TTL_MS_MAX}")


def _group(header: ClaimHeader | SettleHeader | SettledStateHeader) -> str:
    """Return the group of the items, "" for system queues. A mark with any other character in it could not be parsed."""
    if header.group:
        check_group(header.group)
    return header.group


def _invalid(remark: str) -> RefusedRequest:
    return RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
