"""Deletes a topic so that its offsets are never reused: refuses sends at once, logs and flushes the deletion, then removes it."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker_store.commit.appends import Appends
from broker_store.commit.queues import QueueTable
from broker_store.commit.system_records import TopicDeletion
from broker_store.commit.topics import TopicTable
from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.errors import RefusedRequest

Done = Callable[[RefusedRequest | None], None]


class RetiredSaver(Protocol):
    """Saves the next offsets of deleted topics."""

    def changed(self) -> None:
        """Save soon."""
        ...

    def when_saved(self, answer: Callable[[OSError | None], None]) -> None:
        """Call back once all changes are durable."""
        ...


class TopicRemoval:
    """Removes topics, with one log record each."""

    def __init__(
        self,
        topics: TopicTable,
        queues: QueueTable,
        appends: Appends,
        saver: RetiredSaver,
        now_ms: Callable[[], int],
        on_removed: Callable[[str], None],
    ) -> None:
        """`on_removed` is called with the topic's name once its queues are gone."""
        self._topics = topics
        self._queues = queues
        self._appends = appends
        self._saver = saver
        self._now_ms = now_ms
        self._on_removed = on_removed

    def remove(self, config: TopicConfig, done: Done) -> None:
        """Delete a topic. Calls `done` when that is durable, or with the reason why it was not done."""
        name = config.topic_name
        self._topics.removing.add(name)
        logged = partial(self._logged, config, done)
        deletion = TopicDeletion(self._queues, name, self._now_ms(), self._appends.store_host, logged)
        self._appends.enqueue(deletion)
        # Its configuration's deletion lies behind it in the log. The other way round, a crash between the two would
        # leave queues without a configuration, for which the next start would make one.
        self._topics.delete(name)

    def _logged(self, config: TopicConfig, done: Done, refusal: RefusedRequest | None) -> None:
        name = config.topic_name
        self._topics.removing.discard(name)
        if refusal is not None:
            self._topics.put(config)
            done(refusal)
            return
        self._queues.remove(name)
        self._on_removed(name)
        self._saver.changed()
        # The record in the log is durable already. The file only saves recovery the search for it.
        self._saver.when_saved(lambda _error: done(None))
