"""What the log of this replica has lost, in this life: what its start found, and what `gantry/lost` says of earlier starts."""

from broker_store.log.log_range import joined
from broker_store.opening.opened_store import OpenedStore
from broker_store.replication.lost_file import Lost, LostFile
from gantry_chassis.logs.structured import get_logger

_log = get_logger()


class LostRecords:
    """The losses of one life, and their file. `settle` and `note_filled` run in a thread, one at a time."""

    def __init__(self, store: OpenedStore) -> None:
        """Read the file. Raises OSError."""
        self._file = LostFile(store.files, store.directory)
        self._noted = self._file.read()
        self.lost = _judge(self._noted, store)
        """None: nothing."""
        if self.lost is not None:
            _log.error(
                "this replica has lost records that others have: it leads only where no other one can",
                file=self._file.path, ranges=[f"{start} to {end}" for start, end in self.lost.ranges], is_known=self.lost.is_known,
            )  # fmt: skip

    @property
    def are_any(self) -> bool:
        """Whether the log has lost records, or the file still says so."""
        return self.lost is not None or self._noted is not None

    def settle(self) -> None:
        """Let the file say what is lost, durably. Raises OSError; call again then."""
        if self.lost == self._noted:
            return
        if self.lost is None:
            self._file.remove()
            _log.info("the log of this replica has everything again", file=self._file.path)
        else:
            self._file.write(self.lost)
        self._noted = self.lost

    def note_filled(self) -> None:
        """Let the file say that everything is there again: the next start reads the whole log. Raises OSError; call again then."""
        self.lost = Lost(is_filled=True)
        self.settle()


def _judge(noted: Lost | None, store: OpenedStore) -> Lost | None:
    """Return what is lost. A start that has read the whole log knows; another one has only met what lies above its checkpoint.

    Where such a start finds everything, and an earlier one did not, snapshots of the earlier one may have been used: one more start is without them.
    """
    found = joined(store.skipped)
    if store.recovery_start > store.log.min_position and noted is not None:
        return Lost(joined((*noted.ranges, *found)))
    if not found and noted is not None and not noted.is_filled:
        return Lost(is_filled=True)
    return Lost(found) if found else None
