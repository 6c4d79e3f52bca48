"""What happens to stores alone after the last reading: derived files are lost and made again, or hours pass and retention works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gantry_chassis.process import Life
from gantry_link.clients.store import StoreClient
from gantry_link.connections.pool import ConnectionPool
from gantry_link.errors import BrokerRefused, LinkError
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.doing import GROUP, body_of, message_of
from gantry_simulation.lives.operations.reading import pull_header
from gantry_simulation.lives.operations.sends import unique_key
from gantry_simulation.lives.plan import topic_name
from gantry_simulation.lives.system import System
from gantry_simulation.parts.store import DIRECTORY
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import QueryMessageHeader, SendHeaderV2
from gantry_wire.messages.properties import UNIQ_KEY
from gantry_wire.records.message_record import scan_records

REBUILD, HOURS = "rebuild", "hours"
DERIVED = (
    "gantry/queues.json",
    "gantry/queues.json.bak",
    "gantry/settled.snapshot",
    "gantry/leases.snapshot",
)
KEYS_ASKED = 10
HAVE_KEYS = "mekb"
"""First letters of messages whose unique key follows from their name."""
TIMEOUT_SECONDS = 5.0
AGAIN_SECONDS = 0.2
READ_SECONDS = 60.0
STOP_SECONDS = 30.0
AWAY_SECONDS = 2 * 3600.0
"""Longer than what is kept: an hour."""
RETENTION_SECONDS = 25.0
"""Stores look for old segments every 10 seconds."""
YOUNG, YOUNG_BYTES = 8, 20_000
"""Messages that each store gets after the hours: they fill a small segment."""
EVERY_HOUR = ";".join(map(str, range(24)))


class Content(NamedTuple):
    """What a store has."""

    found: dict[Place, str]
    ends: dict[tuple[str, str, int], tuple[int, int]]
    """Least offset and next one of each queue."""


Work = Callable[[StoreClient, str], Awaitable[None]]
"""What to do with a client of a store of this name."""


class Epilogue:
    """One epilogue. Everything has stopped before, and has again afterwards."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._clients = 0

    def run(self, kind: str) -> None:
        """Run the epilogue of this kind."""
        if kind == REBUILD:
            self._rebuild()
        elif kind == HOURS:
            self._let_hours_pass()
        for store in self._system.stores.values():
            if store.process.is_running:
                store.process.stop_once()
        self._until(lambda: not any(self._running()), STOP_SECONDS, "does not stop")

    def _rebuild(self) -> None:
        """Compare what the stores have before and after a rebuild from their logs alone."""
        self._start()
        before = self._read()
        for name, store in self._system.stores.items():
            store.kill()
            for folder in ("consumequeue", "index"):
                store.files.remove_dir(f"{DIRECTORY}/{folder}")
            for file in DERIVED:
                store.files.remove(f"{DIRECTORY}/{file}")
            self._system.history.add(name, "loses what it derived from its log")
        self._start()
        after = self._read()
        damaged = self._system.ledger.messages.damaged_stores
        for where, ends in before.ends.items():
            if after.ends.get(where) != ends and where[0] not in damaged:
                self._violate(f"{where} has the offsets {ends}, and {after.ends.get(where)} after a rebuild")
        for place, message in before.found.items():
            if after.found.get(place) != message:
                self._violate(f"{place} has {message}, and {after.found.get(place)} after a rebuild")
        self._ask_for_keys(after.found)

    def _ask_for_keys(self, found: dict[Place, str]) -> None:
        async def ask(client: StoreClient, name: str) -> None:
            if not self._system.stores[name].settings.index_enable:
                return
            own = [each for each in found.items() if each[0].store == name and each[1][0] in HAVE_KEYS]
            for place, message in own[:KEYS_ASKED]:
                header = QueryMessageHeader(
                    topic=place.topic, key=unique_key(message), max_num=KEYS_ASKED, begin_timestamp=0,
                    end_timestamp=1 << 60, unique_key_query=True,
                )  # fmt: skip
                records = scan_records(await client.query_messages(header))
                if (place.queue, place.offset) not in {
                    (each.queue_id, each.queue_offset) for each in records
                }:
                    self._violate(f"{message} of {place} is not found by its key after a rebuild")

        self._with_clients(ask)

    def _let_hours_pass(self) -> None:
        """Keep messages for an hour, and be away for two."""
        system = self._system
        segments = {name: self._segments(name) for name in system.stores}
        system.world.run_for(AWAY_SECONDS)
        for store in system.stores.values():
            store.configure(reserved_hours=1, delete_when=EVERY_HOUR)
        self._start()
        young = self._send_young()
        system.world.run_for(RETENTION_SECONDS)
        self._check_retention(young)
        self._check_deleted(segments)
        for number, store in enumerate(system.stores.values()):
            store.lose_power(number)
        self._start()  # names that were removed may be there again
        self._check_retention(young)

    def _send_young(self) -> dict[Place, str]:
        young: dict[Place, str] = {}

        async def send(client: StoreClient, name: str) -> None:
            while len([place for place in young if place.store == name]) < YOUNG:
                message = f"y{len(young)}"
                header = SendHeaderV2(
                    producer_group=GROUP, topic=topic_name(0), default_topic="TBW102", default_topic_queue_nums=4,
                    queue_id=0, sys_flag=0, born_timestamp=0, flag=0, properties=f"{UNIQ_KEY}\x01{unique_key(message)}\x02",
                )  # fmt: skip
                reply = (await client.send(header, body_of(message, YOUNG_BYTES))).reply
                young[Place(name, topic_name(0), reply.queue_id, reply.queue_offset)] = message

        self._with_clients(send)
        return young

    def _check_retention(self, young: dict[Place, str]) -> None:
        content = self._read()
        for place, message in young.items():
            if content.found.get(place) != message and self._system.is_sync(place.store):
                self._violate(
                    f"{message} of {place} is younger than an hour, and there is {content.found.get(place)}"
                )

    def _check_deleted(self, segments: dict[str, list[str]]) -> None:
        for name, before in segments.items():
            self._system.history.add(name, f"has the segments {self._segments(name)}, had {before}")
            if self._deletes_all() and len(before) > 1 and self._segments(name)[0] == before[0]:
                self._violate(f"{name} keeps the segment {before[0]}, which is older than an hour")

    def _deletes_all(self) -> bool:
        """Whether nothing but its age decides about a segment: no item waits in it for a decision, and the store trusts its clock."""
        happened = self._system.happened
        waits = ("transaction", "instant", "level", "clock")
        return not self._system.shape.nameservers and not any(
            word in kind for kind in happened for word in waits
        )

    def _segments(self, name: str) -> list[str]:
        """Return the segments that hold records: the next one is made ahead."""
        files, folder = self._system.stores[name].files, f"{DIRECTORY}/commitlog"
        return [each for each in files.listdir(folder) if any(files.content(f"{folder}/{each}")[:8])]

    def _read(self) -> Content:
        content = Content({}, {})
        shape = self._system.shape
        queues = [
            (topic_name(topic), queue) for topic in range(shape.topics) for queue in range(shape.queues)
        ]

        async def read(client: StoreClient, name: str) -> None:
            for topic, queue in queues:
                try:
                    await self._read_queue(client, (name, topic, queue), content)
                except BrokerRefused as refused:
                    if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                        raise

        self._with_clients(read)
        return content

    async def _read_queue(self, client: StoreClient, where: tuple[str, str, int], content: Content) -> None:
        _, topic, queue = where
        least, end = await client.min_offset(topic, queue), await client.max_offset(topic, queue)
        content.ends[where] = least, end
        if least > 0:
            pulled = await client.pull(pull_header(topic, queue, least - 1))
            if pulled.code != ResponseCode.PULL_OFFSET_MOVED or pulled.next_offset != least:
                self._violate(
                    f"a pull below {least} of {where} gets the code {pulled.code}, {pulled.next_offset}"
                )
        while least < end:
            pulled = await client.pull(pull_header(topic, queue, least))
            for record in scan_records(pulled.records):
                content.found[Place(*where, record.queue_offset)] = message_of(record.body)
            least = max(pulled.next_offset, least + 1)

    def _start(self) -> None:
        for store in self._system.stores.values():
            if not store.process.is_running:
                store.start()

    def _with_clients(self, work: Work) -> None:
        """Do some work with a client of each store, again until the store answers."""
        self._clients += 1
        process = self._system.make_process(f"epilogue {self._clients}")

        async def run(life: Life) -> None:
            pool = ConnectionPool(rng=life.environment.rng)
            for name, store in self._system.stores.items():
                while True:
                    try:
                        await work(StoreClient(pool, store.address, TIMEOUT_SECONDS), name)
                        break
                    except (BrokerRefused, LinkError):
                        await life.sleep(AGAIN_SECONDS)
            await pool.close()

        process.start(run)
        self._until(lambda: not process.is_running, READ_SECONDS, "does not answer")

    def _running(self) -> list[str]:
        return [name for name, store in self._system.stores.items() if store.process.is_running]

    def _until(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        if not self._system.world.run_until(is_so, within=seconds):
            self._violate(f"{', '.join(self._system.stores)}: {what}")

    def _violate(self, what: str) -> None:
        self._system.world.violate("epilogue", what)
