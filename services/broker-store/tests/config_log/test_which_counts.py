"""Topics, groups and settings at an opening: what was answered survives every crash, and the newer of file and log counts."""

import errno

import pytest
from config_side import CONFIG, ConfigSide, write
from sending_side import ScriptedPeer
from structlog.testing import capture_logs

from broker_store.commit.topics import CONFIG_TOPIC
from broker_store.config_log.exports import FoundFile, Origin, choose
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from gantry_wire.bodies import fastjson
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio
STATES = 12


async def changed_side(**settings) -> ConfigSide:
    side = ConfigSide(**settings)
    for answer in (
        await side.make_topic("orders", 3),
        await side.make_topic("gone", 2),
        await side.make_group("readers", 5),
        await side.make_group("left"),
        await side.forbid("readers", "orders"),
        await side.set("brokerPermission=4\nlongPollingEnable=false\n"),
        await side.delete_topic("gone"),
        await side.delete_group("left"),
    ):
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    return side


def state_of(disk: SimulatedFiles, side: ConfigSide):
    return ConfigSide(disk, side.wall_s + 1, flush=side.settings.flush).config_state()


def user_groups(state):
    return {name for name in state["groups"] if name in ("readers", "left", "again")}


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_what_was_answered_survives_every_crash_without_any_file(flush):
    side = await changed_side(flush=flush)
    expected = side.config_state()
    assert expected["topics"] == {"orders": 3}
    assert (user_groups(expected), expected["groups"]["readers"]) == ({"readers"}, 5)
    assert expected["forbidden"] == {"readers": {"orders": 4}}
    assert expected["settings"] == {"brokerPermission": "4", "longPollingEnable": "false"}
    for disk in [side.files.killed(), *side.files.crash_states(STATES)]:
        for name in ("topics.json", "subscriptionGroup.json", "broker.properties"):
            for path in (f"{CONFIG}/{name}", f"{CONFIG}/{name}.bak"):
                disk.remove(path)
        assert state_of(disk, side) == expected


async def test_a_setting_that_the_log_holds_applies_again():
    side = await changed_side()
    again = ConfigSide(side.files.killed(), side.wall_s + 1)
    reads = again.foundation.reading.settings
    assert (reads.broker_permission, reads.long_polling_enable) == (4, False)


async def test_an_older_file_of_ours_does_not_count_after_a_crash():
    side = await changed_side()
    await side.export()
    old = {name: side.files.read_bytes(f"{CONFIG}/{name}") for name in
           ("topics.json", "subscriptionGroup.json", "broker.properties")}  # fmt: skip
    await side.make_topic("new", 1)
    await side.make_group("again", 1)
    await side.set("brokerPermission=6\n")
    disk = side.files.killed()
    for name, content in old.items():
        assert content is not None
        write(disk, name, content)
    assert state_of(disk, side) == side.config_state()


async def test_a_second_start_appends_nothing():
    side = await changed_side()
    await side.stop()
    again = ConfigSide(side.files, side.wall_s + 1)
    assert not again.appends.pending
    assert again.config_state() == side.config_state()
    await again.stop()
    third = ConfigSide(again.files, again.wall_s + 1)
    assert third.log.written_end == side.log.written_end


async def test_versions_continue_where_the_log_ends():
    side = ConfigSide()
    await side.make_topic("orders")
    await side.make_group("readers")
    await side.set("longPollingEnable=false\n")
    versions = (
        side.topics.version.value,
        side.foundation.reading.groups.version.value,
        side.config.version.value.counter,
    )
    again = ConfigSide(side.files.killed(), side.wall_s + 1)
    groups = again.foundation.reading.groups
    assert (again.topics.version.value, groups.version.value, again.config.version.value.counter) == versions


@pytest.mark.parametrize("ends", ["stop", "kill"])
async def test_files_that_an_operator_edits_count_after_an_orderly_stop_only(ends):
    side = await changed_side()
    await side.export()
    before = side.config_state()
    if ends == "stop":
        await side.stop()
    disk = side.files.killed()
    topics = fastjson.loads(disk.read_bytes(f"{CONFIG}/topics.json"))
    topics["topicConfigTable"]["orders"]["writeQueueNums"] = 9
    topics["topicConfigTable"]["made"] = {
        "topicName": "made",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
    }
    write(disk, "topics.json", fastjson.dumps(topics))
    groups = fastjson.loads(disk.read_bytes(f"{CONFIG}/subscriptionGroup.json"))
    del groups["subscriptionGroupTable"]["readers"]
    groups["forbiddenTable"] = {}
    write(disk, "subscriptionGroup.json", fastjson.dumps(groups))
    lines = disk.read_bytes(f"{CONFIG}/broker.properties").splitlines(keepends=True)
    write(disk, "broker.properties", b"".join(line for line in lines if not line.startswith(b"brokerP")))
    again = ConfigSide(disk, side.wall_s + 1)
    if ends == "kill":
        assert again.config_state() == before
        return
    edited = again.config_state()
    assert edited["topics"] == {"orders": 9, "made": 2}
    assert (user_groups(edited), edited["forbidden"]) == (set(), {})
    assert edited["settings"] == {"longPollingEnable": "false"}
    # A crash at any moment of the move leaves an edit that moves again, or has moved.
    for left in [disk.killed(), *disk.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 2).config_state() == edited
    again.flush()
    for left in [disk.killed(), *disk.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 2).config_state() == edited
    await again.export()
    for left in [disk.killed(), *disk.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 2).config_state() == edited


async def test_files_without_a_number_are_of_another_broker_and_count():
    side = await changed_side()
    await side.stop()
    disk = side.files
    for name, change in (
        ("topics.json", lambda table: table["topicConfigTable"].pop("orders")),
        ("subscriptionGroup.json", lambda table: table["subscriptionGroupTable"].pop("readers")),
    ):
        table = fastjson.loads(disk.read_bytes(f"{CONFIG}/{name}"))
        del table["gantryNumber"]
        change(table)
        write(disk, name, fastjson.dumps(table))
    again = ConfigSide(disk, side.wall_s + 1)
    assert (again.config_state()["topics"], user_groups(again.config_state())) == ({}, set())
    for left in [disk.killed(), *disk.crash_states(STATES)]:
        found = ConfigSide(left, side.wall_s + 2).config_state()
        assert (found["topics"], user_groups(found)) == ({}, set())
    await again.make_topic("new", 1)
    for left in [disk.killed(), *disk.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 2).config_state()["topics"] == {"new": 1}


async def test_a_directory_of_an_earlier_version_moves_over_once():
    side = await changed_side()
    await side.stop()
    disk = side.files
    old = SimulatedFiles()
    old.make_dirs(CONFIG)
    for name in ("topics.json", "subscriptionGroup.json"):
        table = fastjson.loads(disk.read_bytes(f"{CONFIG}/{name}"))
        del table["gantryNumber"]
        write(old, name, fastjson.dumps(table))
    write(old, "broker.properties", b"brokerPermission=4\nlongPollingEnable=false\n")
    first = ConfigSide(old, side.wall_s + 1)
    assert first.config_state() == side.config_state()
    for left in [old.killed(), *old.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 2).config_state() == side.config_state()
    first.flush()
    moved = len(first.records(CONFIG_TOPIC))
    assert moved == 5  # a topic, a group, what it may not read, two settings
    await first.stop()
    second = ConfigSide(old, side.wall_s + 3)
    second.flush()
    assert len(second.records(CONFIG_TOPIC)) == moved
    assert second.config_state() == side.config_state()


async def test_damaged_files_do_not_count_and_make_no_rebuild():
    side = await changed_side()
    for _ in range(20):
        side.send(ScriptedPeer(), body=b"x" * 250_000)
        side.flush()
    await side._flushing(side.sending.checkpoints.take())
    expected = side.config_state()
    for content in (b"\xff{", b"", None):
        disk = side.files.killed()
        for name in ("topics.json", "subscriptionGroup.json", "broker.properties"):
            disk.remove(f"{CONFIG}/{name}.bak")
            if content is None:
                disk.remove(f"{CONFIG}/{name}")
            else:
                write(disk, name, content)
        again = ConfigSide(disk, side.wall_s + 1)
        assert again.opening.rebuild_reason is None
        assert again.config_state() == expected


async def test_a_store_that_lost_all_but_its_log_has_the_same_configuration():
    side = await changed_side()
    bare = side.files.killed()
    for name in ("consumequeue", "index", "config", "gantry/keys", "gantry/units"):
        bare.remove_dir(f"/store/{name}")
    for name in ("access", "config", "settled", "leases", "transactions"):
        bare.remove(f"/store/gantry/{name}.snapshot")
    bare.remove("/store/gantry/queues.json")
    assert state_of(bare, side) == side.config_state()


async def test_a_topic_made_again_while_its_deletion_is_logged_exists_and_a_deleted_one_does_not():
    side = ConfigSide()
    for _ in range(3):
        await side.make_topic("orders", 3)
        side.send(ScriptedPeer(), body=b"one")
        side.flush()
        before = side.config_state()["topics"]
        peer = ScriptedPeer()
        side.ask(peer, 215, {"topic": "orders"})
        side.end_turn()
        for left in [side.files.killed(), *side.files.crash_states(STATES)]:
            assert ConfigSide(left, side.wall_s + 1).config_state()["topics"] in ({}, before)
        while not peer.answers:
            await side._flushing(side.sending._note_saver.saved())
        for left in [side.files.killed(), *side.files.crash_states(STATES)]:
            assert ConfigSide(left, side.wall_s + 1).config_state()["topics"] == {}
    await side.make_topic("orders", 5)
    await side._flushing(side.sending.checkpoints.take())
    for left in [side.files.killed(), *side.files.crash_states(STATES)]:
        assert ConfigSide(left, side.wall_s + 1).config_state()["topics"] == {"orders": 5}


async def test_a_deletion_that_could_not_be_logged_leaves_the_topic(monkeypatch):
    side = ConfigSide()
    await side.make_topic("orders", 3)
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    answer = await side.delete_topic("orders")
    assert answer.ext["gantryCode"] == "DISK_FULL" if "gantryCode" in answer.ext else answer.code != 0
    assert side.config_state()["topics"] == {"orders": 3}
    assert ConfigSide(side.files.killed(), side.wall_s + 1).config_state()["topics"] == {"orders": 3}


@pytest.mark.parametrize(
    ("found", "newest", "was_stopped", "is_file"),
    [
        (None, None, False, True),
        (None, 3, True, False),
        (FoundFile(is_whole=True, number=None), None, False, True),
        (FoundFile(is_whole=True, number=None), 3, False, True),
        (FoundFile(is_whole=False, number=None), None, False, True),
        (FoundFile(is_whole=False, number=None), 3, False, False),
        (FoundFile(is_whole=False, number=3), 3, True, False),
        (FoundFile(is_whole=True, number=3), 3, True, True),
        (FoundFile(is_whole=True, number=3), 3, False, False),
        (FoundFile(is_whole=True, number=2), 3, True, False),
        (FoundFile(is_whole=True, number=3), None, False, True),
    ],
)
def test_the_file_counts_if_nobody_else_knows_more(found, newest, was_stopped, is_file):
    assert choose(found, newest, was_stopped=was_stopped) == Origin(found, is_file)


async def test_no_file_names_a_change_that_is_not_in_the_log():
    side = ConfigSide()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    side.ask(ScriptedPeer(), 200, body=b'{"groupName":"readers"}')
    side.end_turn()
    with pytest.raises(Exception, match="injected"):
        side.log.sync()
    for left in [side.files.killed(), *side.files.crash_states(STATES)]:
        content = left.read_bytes(f"{CONFIG}/subscriptionGroup.json") or b""
        assert b"readers" not in content


async def test_the_opening_reports_what_moves_into_the_log():
    side = await changed_side()
    await side.stop()
    for name in ("topics.json", "subscriptionGroup.json"):
        table = fastjson.loads(side.files.read_bytes(f"{CONFIG}/{name}"))
        table.pop("gantryNumber")
        next(iter(table.values()))
        write(side.files, name, fastjson.dumps(table))
    with capture_logs() as logs:
        ConfigSide(side.files, side.wall_s + 1)
    assert not [line for line in logs if line["event"] == "configuration moves into the log"], (
        "nothing differs"
    )
