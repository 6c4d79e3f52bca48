"""A store directory after its opening: the log, what is derived from it, and what the opening found."""

from dataclasses import dataclass, field

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.queues import QueueTable
from broker_store.commit.topics import TopicTable
from broker_store.commit.visible.store_events import StoreEvents
from broker_store.config.config_files import ConfigFile
from broker_store.config.delay_levels import LevelList
from broker_store.config_log.exports import FoundFile, Origin
from broker_store.derived import SnapshotFiles
from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.consume_queues.unit_journal import UnitJournal
from broker_store.log.files.files import Files
from broker_store.log.index.index import IndexFiles
from broker_store.log.log_range import LogRange
from broker_store.opening.derived_states import DerivedStates
from broker_store.opening.queue_note import QueueNote, Reason
from broker_store.sending.idempotency import Window
from broker_store.sending.key_journal import KeyJournal
from broker_store.settings import Settings
from gantry_chassis.machine.environment import Environment


@dataclass(slots=True)
class OpenedStore:
    """The parts of an open store directory."""

    settings: Settings
    files: Files
    clock: StoreClock
    environment: Environment
    store_host: bytes
    checkpoint: Checkpoint
    log: CommitLog
    queues: QueueTable
    index: IndexFiles | None
    topics: TopicTable
    topics_file: ConfigFile
    topics_found: FoundFile | None
    """What topics.json was. None where there was none."""
    window: Window
    journal: KeyJournal
    unit_journal: UnitJournal
    note_file: ConfigFile
    events: StoreEvents
    levels: LevelList
    states: DerivedStates
    snapshots: SnapshotFiles
    boot_count: int
    """How often this directory was opened: the upper half of the epochs of claims."""
    recovered_ms: int = 0
    """Store time of the newest record, 0 in an empty log."""
    holes: int = 0
    skipped: list[LogRange] = field(default_factory=list[LogRange])
    """Damaged or missing stretches of the log, below what was confirmed, that this start skipped."""
    rebuild_reason: Reason | None = None
    """Why queues, index and tables were rebuilt from the whole log. None when they were loaded."""
    recovery_start: int = 0
    """Log position from which recovery read."""
    note: QueueNote | None = None
    """The note that was found. None for a directory without one, or written by another broker."""
    is_whole: bool = False
    """Nothing had to be recovered: all units are in their queue files."""

    topics_origin: Origin | None = None
    """Whether topics.json or the log counted. None until the log is read to its end."""

    @property
    def directory(self) -> str:
        """The store directory."""
        return str(self.settings.store_dir)

    @property
    def was_stopped(self) -> bool:
        """Whether this program wrote to the directory last, and stopped in order."""
        return self.checkpoint.last.is_clean and not self.checkpoint.last.foreign

    @property
    def config_dir(self) -> str:
        """The directory of the tables of topics, groups and offsets."""
        return f"{self.directory}/config"
