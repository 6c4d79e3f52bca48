"""Makes drafts of the messages of one request: ids, the moment they came, and the horizon of delays. Pure but for its ports."""

from collections.abc import Callable, Sequence

from gantry_wire.ids import UniqueIds
from gateway.messages.schemas import MessageIn
from gateway.send.delays import delay_property
from gateway.send.drafts import Draft, FieldNames, draft


class Drafting:
    """Turns what clients wrote into drafts."""

    def __init__(self, ids: UniqueIds, wall_ms: Callable[[], int], delay_horizon_ms: int) -> None:
        self._next_id, self._wall_ms, self._horizon_ms = ids.next, wall_ms, delay_horizon_ms

    def drafts(self, items: Sequence[MessageIn], trace: str, name_of: FieldNames) -> list[Draft]:
        """Return a draft of each message; raise the problem of the first that is refused."""
        now_ms = self._wall_ms()
        next_id = self._next_id
        drafts = [draft(item, next_id(now_ms), trace, place, name_of) for place, item in enumerate(items)]
        for one in drafts:
            if one.is_delayed:
                one.properties += delay_property(one.item, now_ms, self._horizon_ms, one.place, name_of)
        return drafts
