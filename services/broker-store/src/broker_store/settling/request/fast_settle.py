"""Fast path of ordinary decisions: one message made from the item's own record.

Writes byte for byte what `output_records.py` plans and `item_decisions.py` builds, in a third of the time:
messages of one queue share a template, built once. Leaves everything else to the slow path. Decides nothing.
"""

from broker_store.commit.gathered_rows import GatheredRows
from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import PROPERTIES_LENGTH_BYTES, Placed, RecordWriter
from broker_store.settling.decided.mark import MARK, MARK_SUFFIX_BYTES_MAX, MARK_SUFFIXES, Source, mark_parts
from broker_store.settling.request.items import Gathered
from broker_store.settling.request.output_records import FindTarget, remover, text_of, unique_key_of
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import find_property, tags_code
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import OutputPlace, SettleOutput
from gantry_wire.records.message_record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK, properties_length

_KEPT_FLAGS = ~SYS_TRANSACTION_MASK
_END = b"\x02"
_END_BYTE = 2
_SUFFIX_ALONE = MARK_SUFFIXES[1][1]
_SUFFIX_SIZE = len(_SUFFIX_ALONE)
_OTHER_BYTES = PROPERTIES_LENGTH_BYTES + _SUFFIX_SIZE


class _Template:
    """What messages with equal outputs share."""

    __slots__ = ("is_commit", "output", "placed", "queue", "remove", "topic")

    def __init__(self, output: SettleOutput, queue: Queue, placed: list[Placed]) -> None:
        self.output = output
        self.queue = queue
        self.topic = queue.topic
        self.placed = placed
        """Records that become visible together."""
        self.is_commit = output.transaction == "commit"
        self.remove = remover(output.drop) if output.drop else None


class FastSettle:
    """Builds the ordinary items of one request in one placement."""

    def __init__(
        self,
        source: Source,
        find_target: FindTarget,
        at: RecordWriter,
        held: list[Placed],
        shown: list[Placed],
    ) -> None:
        """`held` receives records that wait for a flush, `shown` those visible after the write."""
        self._before, self._behind = mark_parts(source)
        self.find_target = find_target
        self._held, self._shown = held, shown
        self._templates: dict[tuple[str, int], _Template | None] = {}
        self._template: _Template | None = None
        """Template of the last item, usually also that of the next."""
        self._rows = GatheredRows(at)
        self._places: list[tuple[_Template, list[OutputPlace]]] = []
        """Of the gathered rows."""

    def put(self, gathered: Gathered) -> list[OutputPlace] | None:
        """Build an item's record, and return the list of its place. `place` fills it.

        None when it is not ordinary. Raises CannotPlan or LogError. Changes nothing in these cases.
        """
        item, record = gathered.item, gathered.record
        if record is None or len(item.outputs) != 1:
            return None
        output, template = item.outputs[0], self._template
        if template is None or (template.output is not output and template.output != output):
            template = self._template = self._template_of(output)
        (
            _, _, crc, _, flag, _, _, sys_flag, born_ms, born_host, _, _, times, _, body, _, properties,
        ) = record  # fmt: skip
        if template is None or MARK in properties or not properties or properties[-1] != _END_BYTE:
            return None
        if template.remove is not None:
            properties = template.remove(b"", _END + properties)[1:]
        mark = b"%b%d%b" % (self._before, item.offset, self._behind)
        text_size = len(properties) + len(mark)
        if text_size + MARK_SUFFIX_BYTES_MAX > PROPERTIES_BYTES_MAX:
            return None
        queue, sys_flag, prepared = template.queue, sys_flag & _KEPT_FLAGS, 0
        if template.is_commit:
            sys_flag, prepared = sys_flag | SYS_TRANSACTION_COMMIT, item.position
        middle = queue.behind_body
        length = properties_length(text_size + _SUFFIX_SIZE)
        tag = find_property(properties, b"TAGS") if b"TAGS\x01" in properties else None
        keys = text_of(properties, b"KEYS") if b"KEYS\x01" in properties else None
        # keep the item's checksum: a new one would hide damage done to the body meanwhile
        size = len(body) + len(middle) + text_size + _OTHER_BYTES
        row = (
            queue, crc, flag, sys_flag, born_ms, times, prepared, size, (body, middle, length, properties, mark, _SUFFIX_ALONE),
            tags_code(tag) if tag else 0, unique_key_of(properties), keys, None,
        )  # fmt: skip
        self._rows.add((row,), size, born_host)
        places: list[OutputPlace] = []
        self._places.append((template, places))
        return places

    def place(self) -> None:
        """Place the records that were put. Call it after the last item, and before records of another kind."""
        for placed, (template, places) in zip(self._rows.finish(), self._places, strict=True):
            template.placed.append(placed)
            places.append(OutputPlace(template.topic, template.queue.queue_id, placed[1], placed[2]))
        self._places = []

    def _template_of(self, output: SettleOutput) -> _Template | None:
        key = (output.topic, output.queue_id)
        template = self._templates.get(key)
        if template is None and key not in self._templates:
            template = self._templates[key] = self._make_template(output)
        return template if template is not None and template.output == output else None

    def _make_template(self, output: SettleOutput) -> _Template | None:
        is_own = output.body == "item" and output.properties == "item" and not output.set
        # queue -1 means another queue each time, and a delayed message's unit holds its due time
        if not is_own or output.reconsume_times is not None or output.queue_id < 0:
            return None
        if output.topic == SCHEDULE_TOPIC:
            return None
        target, queue = self.find_target(output.topic, output.queue_id)
        return _Template(output, queue, self._held if target.mode != Mode.ASYNC else self._shown)
