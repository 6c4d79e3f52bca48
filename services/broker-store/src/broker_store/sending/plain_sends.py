"""Fast path of plain messages: their properties are the two that every Java client sets, and their topic is known.

`take` reads only what varies between messages of one producer. Anything unusual takes the slow path through
`send_handler.py`, whose checks these messages would all pass. Both paths store the same bytes and give the
same remarks.
"""

from broker_store.commit.appends import Appends
from broker_store.commit.message import ALONE_OF
from broker_store.commit.stamp import Stamp, plain_unique_key
from broker_store.commit.targets import Target, Targets
from broker_store.ports import Peer
from broker_store.sending.plain_run import RUN_BYTES_MAX, PlainRun, RecordTemplate
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.frames.known_headers import HeaderPattern, KnownSend
from gantry_wire.headers.messages import SendHeader
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.ids import pack_host
from gantry_wire.names import RETRY_PREFIX

BORN_HOST = "born_host"
"""Attribute of a peer: its address as in records."""
TEMPLATES_MAX = 32_768
"""Templates kept, half a kilobyte each.

With 4,096 a producer that rotates over 10,000 queues missed most of them, which cost a fifth to a third of
the store's CPU per message.
"""

_TemplateKey = tuple[str, int, int, int, int, int]
"""Topic, queue id, flag, reconsume times, whether one-way, size of the properties."""


class PlainSends:
    """Collects plain messages into runs."""

    def __init__(
        self, targets: Targets, appends: Appends, stamp: Stamp, body_bytes_max: int, *, is_on: bool
    ) -> None:
        """Without `is_on` there are no templates, so every message takes the slow path, keyed ones included."""
        self.body_bytes_max = body_bytes_max
        """Largest body of any send. May change while the store runs."""
        self._known = targets.known
        self._appends = appends
        self._suffix = stamp.suffix
        self._templates: BoundedCache[_TemplateKey, RecordTemplate] = BoundedCache(TEMPLATES_MAX)
        self._run: PlainRun | None = None
        self._is_on = is_on
        self._is_alone = appends.alone is not None

    def set_body_bytes_max(self, size: int) -> None:
        """Take messages up to this size. Longer ones are refused elsewhere."""
        self.body_bytes_max = size

    def take(self, peer: Peer, known: KnownSend, body: bytes) -> bool:
        """Take a message whose header is like an earlier one.

        False when it needs the slow path. Raises RefusedRequest.
        """
        pattern, opaque, queue_id, born, text, _ = known
        unique_key = plain_unique_key(text)
        if not unique_key or not born.isdigit() or len(body) > self.body_bytes_max:
            return False
        templates: dict[bytes, RecordTemplate] | None = pattern.note
        template = templates.get(queue_id) if templates is not None else None
        if template is None or template.target is not self._known.get(template.topic):
            template = self._template_of(pattern, queue_id, len(text))
            if template is None:
                return False
        self._add(peer, template, opaque, int(born), text, unique_key, body)
        return True

    def take_read(self, peer: Peer, command: Command, header: SendHeader, target: Target, text: str) -> bool:
        """As `take`, for a message whose header and properties were parsed and whose target was found."""
        raw = text.encode()
        unique_key = plain_unique_key(raw)
        if not unique_key or header.sys_flag or len(command.body) > self.body_bytes_max:
            return False
        template = self.template(target, header.queue_id, header, command.flag, len(raw))
        if template is None:
            return False
        self._add(peer, template, command.opaque, header.born_timestamp, raw, unique_key, command.body)
        return True

    def template(
        self, target: Target, queue_id: int, header: SendHeader, command_flag: int, text_size: int
    ) -> RecordTemplate | None:
        """Return the template of messages with this header, without a sys flag, in this queue.

        None where they need the slow path.
        """
        key = _template_key(queue_id, header, command_flag, text_size)
        template = self._templates.get(key)
        if template is not None and template.target is target:
            return template
        queue = target.queues[queue_id] if 0 <= queue_id < target.queue_limit else None
        if queue is None or target.topic.startswith(RETRY_PREFIX):
            return None
        if text_size + len(self._suffix) > PROPERTIES_BYTES_MAX or not self._is_on:
            return None
        times, oneway = header.reconsume_times or 0, bool(command_flag & FLAG_ONEWAY)
        template = RecordTemplate(target, queue, header.flag, times, text_size, self._suffix, oneway)
        self._templates.keep(key, template)
        return template

    def _add(
        self,
        peer: Peer,
        template: RecordTemplate,
        opaque: int,
        born_ms: int,
        text: bytes,
        unique_key: str,
        body: bytes,
    ) -> None:
        """Add a message to the group commit, to the previous run if it matches. Raises RefusedRequest."""
        run, target, body_size = self._run, template.target, len(body)
        if (
            run is not None
            and run.peer is peer
            and run.target is target
            and run.size + template.size + body_size <= RUN_BYTES_MAX
            and self._appends.extend(run, body_size)
        ):
            run.add(template, opaque, born_ms, text, unique_key, body)
            return
        run = PlainRun(peer, peer.attributes.get(BORN_HOST) or born_host(peer), target)
        if self._is_alone:
            run.mode = ALONE_OF[run.mode]
        run.add(template, opaque, born_ms, text, unique_key, body)
        self._appends.submit(run, body_size)
        self._run = run

    def _template_of(self, pattern: HeaderPattern, queue_id: bytes, text_size: int) -> RecordTemplate | None:
        """Return the template of messages that the slow path took before.

        Only the slow path creates one, so all its checks have passed.
        """
        header = pattern.header
        if pattern.code != RequestCode.SEND_MESSAGE_V2 or header.batch or not queue_id.isdigit():
            return None
        template = self._templates.get(_template_key(int(queue_id), header, pattern.flag, text_size))
        if template is None or template.target is not self._known.get(template.topic) or header.sys_flag:
            return None
        pattern.note = pattern.note or {}
        pattern.note[queue_id] = template
        return template


def _template_key(queue_id: int, header: SendHeader, command_flag: int, text_size: int) -> _TemplateKey:
    return (
        header.topic,
        queue_id,
        header.flag,
        header.reconsume_times or 0,
        command_flag & FLAG_ONEWAY,
        text_size,
    )


def born_host(peer: Peer) -> bytes:
    """Return the peer's address as in records, and keep it with the peer."""
    packed = pack_host(*peer.remote)
    peer.attributes[BORN_HOST] = packed
    return packed
