"""A whole store over a simulated disk whose groups commit offsets step by step."""

from typing import Any

from leasing_side import LeasingSide
from sending_side import START_S

from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.groups.offset_rows import OffsetRows, decode_rows
from broker_store.log.errors import LogStopped
from gantry_wire.bodies import fastjson

FILE = "/store/config/consumerOffset.json"
JOURNAL = "/store/gantry/offsets.journal"
LATER_S = START_S + 100


class OffsetsSide(LeasingSide):
    """Group `g` commits in topic `orders`."""

    @property
    def keeper(self) -> Any:
        return self.consuming.keeper

    def commit(self, offset: int, queue_id: int = 0, group: str = "g") -> "list[OSError | None]":
        """Commit. Returns where its answer will be."""
        answers: list[OSError | None] = []
        self.keeper.commit(group, "orders", queue_id, offset, answers.append)
        return answers

    def committed_now(self, offset: int, queue_id: int = 0, group: str = "g") -> None:
        """Commit, and flush. The commit succeeds."""
        answers = self.commit(offset, queue_id, group)
        self.flush()
        assert answers == [None]

    def offsets(self, group: str = "g") -> dict[int, int]:
        return dict(self.consuming.offsets.of(group, "orders"))

    def known(self, group: str = "g") -> dict[int, int]:
        """What the durable records say."""
        found = {
            name: of_queues
            for topic, name, of_queues in self.store.states.committed.all()
            if topic == "orders"
        }
        return dict(found.get(group, {}))

    def rows(self) -> list[OffsetRows]:
        """Return the records of offsets that the log has."""
        return [decode_rows(record.body) for record in self.records(COMMITTED_TOPIC)]

    def file(self) -> dict[str, Any]:
        content = fastjson.loads(self.files.content(FILE))
        assert isinstance(content, dict)
        return content

    async def stop(self) -> None:
        """Stop in order."""
        await self.finish(self.consuming.stop())
        await self.finish(self.leasing.close())
        await self.save_topics()
        await self.finish(self.sending.checkpoints.close())
        self.log.close()


def put_file(files: Any, path: str, content: bytes) -> None:
    files.make_dirs(path.rpartition("/")[0])
    files.replace_atomically(path, content)


def opened(disk: Any, **settings: Any) -> OffsetsSide:
    """Open a disk some time later."""
    return OffsetsSide(disk, LATER_S, **settings)


def refuse_appends(side: OffsetsSide, patch: Any) -> None:
    """Let the log take nothing more, as long as `patch` holds."""

    def reserve(_size: int) -> int:
        raise LogStopped("the disk")

    patch.setattr(side.log, "reserve", reserve)
