"""`ha_bootstrap_once`: a register is made once, however often the store starts with the same settings, and whatever is lost."""

import asyncio
import shutil
from pathlib import Path

import pytest
from group_stores import JETSTREAM, StoreGroup, ask_nats
from nats_nodes import nodes
from test_store_group import read_all, send_many

from broker_store.log.files.real_files import RealFiles
from broker_store.process.group.register_note import RegisterNote
from gantry_chassis.machine.environment import machine
from gantry_chassis.start_refusal import StartRefused

SECONDS_MAX = 30


def note_in(folder: Path) -> RegisterNote:
    return RegisterNote(RealFiles(), str(folder / "made"), folder / "store")


def test_a_file_in_the_directory_of_the_store_is_refused(tmp_path):
    inside = tmp_path / "store" / "gantry" / "made"
    inside.parent.mkdir(parents=True)
    with pytest.raises(StartRefused, match="lies in store_dir"):
        RegisterNote(RealFiles(), str(inside), tmp_path / "store")


def test_a_file_without_a_folder_is_refused_before_a_register_is_made(tmp_path):
    with pytest.raises(StartRefused, match=f"no folder {tmp_path}/nowhere"):
        RegisterNote(RealFiles(), str(tmp_path / "nowhere" / "made"), tmp_path / "store")


def test_the_file_is_written_when_the_register_is_known_and_not_before(tmp_path):
    async def live() -> None:
        known: list[bool] = []
        keeping = asyncio.ensure_future(note.keep(lambda: bool(known), thread))
        await asyncio.sleep(0.05)
        assert note_in(tmp_path).may_bootstrap
        known.append(True)
        await asyncio.wait_for(keeping, SECONDS_MAX)

    note, thread = note_in(tmp_path), machine().workers(1, "note")
    try:
        asyncio.run(live())
    finally:
        thread.close()
    assert not note_in(tmp_path).may_bootstrap


@pytest.fixture
def group(tmp_path):
    with nodes(tmp_path / "nats", 1) as (node,):
        group = StoreGroup(tmp_path, node.url, servers=1, ha_bootstrap="false")
        try:
            yield group
        finally:
            group.close()


def start(group, *names):
    for name in names:
        once = {"ha_bootstrap_once": group.folder / "made"} if name == "a" else {}
        group.stores[name].start(**once)


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_store_that_lost_its_directory_and_its_register_makes_no_other_group(group):
    made = group.folder / "made"
    start(group, *"abc")
    group.wait_for_set(3)
    group.wait(made.exists, "the register was made, and no file remembers it")
    sent = send_many(group.leader(), 0, 20)
    for _ in range(2):  # a supervisor starts it with the same settings
        group.stores["a"].kill()
        start(group, "a")
        group.wait_for_set(3)
    assert read_all(group.leader()) == sent
    for store in group.stores.values():
        store.kill()
    assert ask_nats(group, f"{JETSTREAM}.DELETE.GANTRY_REGISTER_broker-a")["success"]
    shutil.rmtree(group.stores["a"].directory)
    start(group, "a")
    group.wait(
        lambda: "there is no stream" in group.stores["a"].state().get("registerFault", ""),
        "the store does not say what is lost",
    )
    names = ask_nats(group, f"{JETSTREAM}.NAMES")
    assert not names["streams"]
