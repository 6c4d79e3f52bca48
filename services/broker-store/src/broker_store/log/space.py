"""Free space: when sends are refused, the ballast that keeps acks and offsets working meanwhile, and recovery from a full disk."""

from broker_store.log.commit_log.commit_log import CommitLog, LogState
from broker_store.log.files.files import Files
from broker_store.log.settings import RESERVE_FILE

HEALED_MARGIN_BYTES = 16 * 1024 * 1024
"""Space beyond minimum and ballast before sends resume, so that the state does not flap."""


class Space:
    """Keeps `gantry/reserve` while there is room, and frees it when the disk fills. Called in one thread."""

    def __init__(self, files: Files, store_directory: str, log: CommitLog) -> None:
        self._files = files
        self._directory = store_directory
        self._path = f"{store_directory}/{RESERVE_FILE}"
        self._log = log
        self._free_bytes_min = log.settings.free_bytes_min
        self._reserve_bytes = log.settings.reserve_bytes

    @property
    def has_ballast(self) -> bool:
        """Whether the reserve has its full size."""
        return self._files.exists(self._path) and self._files.size(self._path) == self._reserve_bytes

    @property
    def has_room(self) -> bool:
        """Whether sends are taken, and for more than the last bytes: the reserve is there, or has room. Asks the disk."""
        if self._log.state is not LogState.RUNNING:
            return False
        spare = self._free_bytes_min + self._reserve_bytes + HEALED_MARGIN_BYTES
        return self.has_ballast or self._files.free_bytes(self._directory) >= spare

    def check(self) -> LogState:
        """Compare free space with the limits, about once a second and after every DiskFull. Returns the state.

        May take as long as writing the ballast.
        """
        free = self._files.free_bytes(self._directory)
        if self._log.state is LogState.RUNNING:
            if free < self._free_bytes_min:
                self._log.mark_disk_full(full=True)
                self._release_ballast()
            elif not self.has_ballast and free >= self._free_bytes_min + self._reserve_bytes:
                self._make_ballast()
        elif self._log.state is LogState.DISK_FULL:
            if self._files.exists(self._path):
                self._release_ballast()
            elif (
                free >= self._free_bytes_min + self._reserve_bytes + HEALED_MARGIN_BYTES
                and self._make_ballast()
            ):
                self._log.mark_disk_full(full=False)
        return self._log.state

    def _release_ballast(self) -> None:
        self._files.remove(self._path)

    def _make_ballast(self) -> bool:
        file = self._files.open(self._path, create_bytes=0)
        try:
            file.zero(0, self._reserve_bytes)
            file.sync()
        except OSError:  # the space was used meanwhile; the next check decides again
            self._files.remove(self._path)
            return False
        finally:
            file.close()
        return True
