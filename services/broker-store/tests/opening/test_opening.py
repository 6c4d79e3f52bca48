"""Restarts over a simulated disk: everything acknowledged is back, whatever derived file was lost."""

import asyncio
import errno

import pytest
from msgspec import structs
from sending_side import ScriptedPeer, SendingSide

from broker_store.commit.system_records import DELETED_TAG, OFFSETS_TAG, read_system_record
from broker_store.commit.topics import SEGMENT_TOPIC, queue_count
from broker_store.log.files.simulated_files import Fault
from broker_store.opening.queue_note import Reason, encode_note, load_note, save_note
from gantry_wire.codes import RequestCode
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


@pytest.fixture
def peer():
    return ScriptedPeer()


async def filled(peer, count=20, **settings):
    side = SendingSide(**settings)
    for number in range(count):
        side.send(
            peer, body=b"%d" % number, queue_id=number % 4, properties={"KEYS": f"k{number}", "TAGS": "t"}
        )
    side.flush()
    return side


def bodies(side, topic="orders"):
    return [[record.body for record in side.records(topic, queue_id)] for queue_id in range(4)]


async def test_everything_acknowledged_is_there_after_a_kill(peer):
    side = await filled(peer)
    again = side.reopen()
    assert bodies(again) == bodies(side)
    again.send(peer)
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).queue_offset == 5


async def test_recovery_after_a_checkpoint_reads_only_what_lies_above_it(peer):
    side = await filled(peer)
    covered = await side.sending.checkpoints.take()
    side.send(peer, body=b"after")
    side.flush()
    again = side.reopen()
    assert covered == side.sending.checkpoints.position > 0
    assert again.opening.records == 1
    assert again.records()[-1].body == b"after"


async def test_an_orderly_stop_leaves_nothing_to_recover(peer):
    side = await filled(peer)
    await side.sending.checkpoints.close()
    again = side.reopen()
    assert again.opening.records == 0
    assert bodies(again) == bodies(side)


@pytest.mark.parametrize("closes", [True, False])
async def test_lost_queues_are_rebuilt_from_the_log(peer, closes):
    side = await filled(peer)
    await (side.sending.checkpoints.close() if closes else side.sending.checkpoints.take())
    side.files.remove_dir("/store/consumequeue")
    again = side.reopen()
    assert again.opening.is_rebuild
    assert bodies(again) == bodies(side)
    assert again.queues.find("orders", 1).next_offset == 5


async def test_one_lost_queue_is_detected(peer):
    side = await filled(peer)
    await side.sending.checkpoints.take()
    side.files.remove_dir("/store/consumequeue/orders/2")
    again = side.reopen()
    assert bodies(again) == bodies(side)


async def test_a_lost_index_is_rebuilt_from_the_log(peer):
    side = await filled(peer)
    await side.sending.checkpoints.close()
    side.files.remove_dir("/store/index")
    again = side.reopen()
    found = again.store.index.lookup(index_key_hash("orders", "k7"), 0, 1 << 60, 10)
    assert found == [side.records("orders", 3)[1].position]


async def test_a_lost_note_is_recreated_by_a_rebuild(peer):
    side = await filled(peer)
    await side.sending.checkpoints.take()
    side.files.remove("/store/gantry/queues.json")
    side.files.remove("/store/gantry/queues.json.bak")
    again = side.reopen()
    assert again.opening.is_rebuild
    assert bodies(again) == bodies(side)


async def test_the_note_of_an_older_checkpoint_hides_no_lost_queue(peer):
    side = await filled(peer, 3)
    await side.sending.checkpoints.take()
    await delete(side, peer, "orders")
    side.send(peer, body=b"again")
    side.flush()
    await side.sending.checkpoints.take()
    side.files.remove("/store/gantry/queues.json")  # its backup has the deletion, and no later message
    side.files.remove_dir("/store/consumequeue/orders")
    again = side.reopen()
    assert again.opening.is_rebuild
    assert [record.body for record in again.records()] == [b"again"]
    again.send(peer)
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).queue_offset == 2


async def test_a_topic_found_only_in_the_log_has_the_queues_of_its_delayed_messages(peer):
    side = SendingSide()
    side.send(peer, body=b"now", queue_id=0)
    side.send(peer, body=b"later", queue_id=3, properties={"TIMER_DELAY_MS": "60000"})
    side.flush()
    side.files.remove("/store/config/topics.json")
    side.files.remove("/store/config/topics.json.bak")
    again = side.reopen()
    assert queue_count(again.store.topics.find("orders")) == 4


async def test_lost_topic_configuration_is_recreated_from_the_queues(peer):
    side = await filled(peer)
    again = side.reopen()
    assert again.topics.find("orders").write_queue_nums == 4


async def test_an_empty_directory_that_a_crash_left_of_a_deleted_topic_makes_no_topic(peer):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    await side.sending.checkpoints.take()
    side.files.make_dirs("/store/consumequeue/orders/0")
    side.files.open("/store/consumequeue/orders/0/00000000000000000000", create_bytes=20_000)
    again = side.reopen()
    assert again.topics.find("orders") is None
    again.send(peer, properties={"UNIQ_KEY": "U"})
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).queue_offset == 1
    assert [record.queue_offset for record in again.records()] == [1]


async def test_topics_that_a_start_has_read_are_durable_though_a_kill_preceded_the_sync_of_the_files_name():
    side = SendingSide()
    side.topics.ensure("kept", 3)
    await side.save_topics()
    file = side.store.topics_file
    topics = file.load()
    del topics["topicConfigTable"]["kept"]  # deleted by RocketMQ
    del topics["gantryNumber"]
    side.files.faults.append(Fault("sync_dir", errno.EIO, "/store/config", skip=1))
    with pytest.raises(OSError, match="injected"):
        file.store(topics)
    assert side.reopen().topics.find("kept") is None
    for left in side.files.crash_states(4):
        assert b"kept" not in left.content("/store/config/topics.json")


async def test_a_damaged_topics_file_is_read_from_its_backup(peer):
    side = SendingSide()
    for name in ("one", "two"):
        side.topics.ensure(name, 3)
        await side.save_topics()
    file = side.files.open("/store/config/topics.json")
    file.pwrite(b"\xff\xfe{", 0)
    again = side.reopen()
    assert again.topics.find("one").write_queue_nums == 3


async def test_every_segment_begins_with_all_next_offsets(peer):
    side = SendingSide(segment_bytes=MIB)
    for _ in range(12):
        side.send(peer, body=b"x" * 200_000)
        side.flush()
    assert len(side.log.segments) > 2
    units = side.queues.find(SEGMENT_TOPIC, 0)
    assert units.max_offset == len(side.log.segments)
    expected = 0
    for segment in side.log.segments:
        system = read_system_record(side.log.read_record(segment.start))
        assert system.position == segment.start
        assert system.next_offsets.get("orders", {}).get(0, 0) == expected
        expected += sum(segment.start <= record.position < segment.end for record in side.records())
    assert side.records(SEGMENT_TOPIC)[0].property_map() == {"TAGS": OFFSETS_TAG}


async def test_offsets_of_emptied_queues_survive_the_loss_of_their_files(peer):
    side = SendingSide(segment_bytes=MIB)
    side.send(peer, "old", body=b"o")
    side.flush()
    for _ in range(12):
        side.send(peer, body=b"x" * 200_000)
        side.flush()
    side.log.drop_first_segment()
    side.log.remove_dropped()
    side.files.remove_dir("/store/consumequeue")
    again = side.reopen()
    assert again.queues.open("old", 0).next_offset == 1
    assert again.records()[-1].queue_offset == 11


async def create(side, peer, topic):
    header = CreateTopicHeader(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    await side.save_topics()


async def delete(side, peer, topic):
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    side.flush()
    await side.sending._note_saver.close()
    await asyncio.sleep(0)


async def test_a_topic_deleted_and_recreated_continues_its_offsets(peer):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    assert peer.answers[-1].code == 0
    assert not side.files.exists("/store/consumequeue/orders/0")
    side.send(peer, properties={"UNIQ_KEY": "U"})
    side.flush()
    assert peer.answers[-1].read(SendReplyHeader).queue_offset == 1
    assert len(side.records()) == 1


@pytest.mark.parametrize("loses", [(), ("/store/gantry/queues.json", "/store/gantry/queues.json.bak")])
@pytest.mark.parametrize("checkpoint", [True, False])
async def test_the_offsets_of_a_deleted_topic_survive_a_restart(peer, loses, checkpoint):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    if checkpoint:
        await side.sending.checkpoints.take()
    for path in loses:
        side.files.remove(path)
    again = side.reopen()
    assert again.topics.find("orders") is None
    assert again.queues.find("orders", 0) is None
    assert again.queues.open("orders", 0).next_offset == 1


async def test_a_recreated_topic_begins_where_it_ended_before_its_first_message(peer):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    await create(side, peer, "orders")
    queue = side.queues.find("orders", 0)
    assert (queue.min_offset, queue.max_offset) == (1, 1)
    assert side.queues.find("orders", 1) is None


@pytest.mark.parametrize("checkpoint", [True, False])
async def test_a_recreated_topic_begins_there_after_a_restart_too(peer, checkpoint):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    await create(side, peer, "orders")
    await create(side, peer, "other")
    if checkpoint:
        await side.sending.checkpoints.take()
    else:  # a note between two checkpoints names the queue, which has no file yet
        await delete(side, peer, "other")
    again = side.reopen()
    assert not again.opening.is_rebuild
    queue = again.queues.find("orders", 0)
    assert (queue.min_offset, queue.max_offset) == (1, 1)
    again.send(peer)
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).queue_offset == 1


async def test_a_crash_between_the_deletion_record_and_the_removal_finishes_the_deletion(peer):
    side = await filled(peer, 3)
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.end_turn()
    side.log.sync()
    again = side.reopen()
    assert again.queues.find("orders", 0) is None
    assert again.topics.find("orders") is None
    assert again.queues.open("orders", 0).next_offset == 1


@pytest.mark.parametrize("is_rebuild", [True, False])
async def test_a_recreated_topic_keeps_its_new_settings_when_recovery_meets_its_deletion(peer, is_rebuild):
    side = await filled(peer, 3)
    await delete(side, peer, "orders")
    side.topics.ensure("orders", 7, perm=4)
    await side.save_topics()
    if is_rebuild:
        await side.sending.checkpoints.take()
        side.files.remove_dir("/store/consumequeue")
    again = side.reopen()
    assert again.opening.is_rebuild is is_rebuild
    assert again.topics.find("orders") == side.topics.find("orders")
    assert again.queues.open("orders", 0).next_offset == 1


async def test_a_deletion_missing_in_topics_json_is_repeated(peer):
    side = await filled(peer, 3)
    side.topics.ensure("other", 1)
    await side.save_topics()
    side.pass_time(0.002)
    for topic in ("orders", "other"):
        side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    side.appends.flush()
    side.log.sync()
    again = side.reopen()
    assert again.topics.find("orders") is None
    assert again.topics.find("other") is None


async def test_a_deletion_is_logged_with_the_offsets_of_what_was_sent_just_before(peer):
    side = await filled(peer, 4)
    side.send(peer, queue_id=0)
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.flush()
    record = side.records(SEGMENT_TOPIC)[-1]
    assert record.property_map() == {"TAGS": DELETED_TAG}
    assert read_system_record(side.log.read_record(record.position)).next_offsets == {0: 2, 1: 1, 2: 1, 3: 1}


async def test_a_topic_cannot_be_recreated_while_its_deletion_is_pending(peer):
    side = await filled(peer, 3)
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.send(peer)
    assert peer.answers[-1].code == 2
    side.flush()
    side.send(peer)
    side.flush()
    assert peer.answers[-1].code == 0


async def test_an_idempotency_key_is_remembered_across_a_kill(peer):
    side = SendingSide()
    side.send(peer, properties={"__GANTRY_KEY": "k", "UNIQ_KEY": "U1"})
    side.flush()
    first = peer.answers[-1].read(SendReplyHeader)
    again = side.reopen()
    again.send(peer, properties={"__GANTRY_KEY": "k", "UNIQ_KEY": "U2"})
    again.flush()
    answer = peer.answers[-1].read(SendReplyHeader)
    assert answer.duplicate
    assert (answer.msg_id, answer.transaction_id) == (first.msg_id, "U1")


@pytest.mark.parametrize("closes", [True, False])
async def test_an_idempotency_key_below_the_checkpoint_is_remembered(peer, closes):
    side = SendingSide()
    side.send(peer, properties={"__GANTRY_KEY": "k", "UNIQ_KEY": "U1"})
    side.flush()
    await (side.sending.checkpoints.close() if closes else side.sending.checkpoints.take())
    again = side.reopen()
    assert again.opening.records == 0
    again.send(peer, properties={"__GANTRY_KEY": "k"})
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).duplicate


async def test_a_lost_key_journal_is_rebuilt_from_the_log(peer):
    side = SendingSide()
    side.send(peer, properties={"__GANTRY_KEY": "k"})
    side.flush()
    await side.sending.checkpoints.close()
    side.files.remove_dir("/store/gantry/keys")
    again = side.reopen()
    again.send(peer, properties={"__GANTRY_KEY": "k"})
    again.flush()
    assert peer.answers[-1].read(SendReplyHeader).duplicate


async def test_store_time_never_goes_back_over_a_restart(peer):
    side = await filled(peer, 1)
    side.wall_s -= 3600
    again = side.reopen()
    again.send(peer)
    again.flush()
    assert again.records()[-1].store_timestamp >= side.records()[-1].store_timestamp


async def test_the_note_of_a_checkpoint_names_the_end_of_every_queue(peer):
    side = await filled(peer, 8)
    await side.sending.checkpoints.take()
    note = load_note(side.store.note_file, side.log.end)
    assert note.next_offsets["orders"] == {0: 2, 1: 2, 2: 2, 3: 2}
    assert note.position == side.log.end


async def between_note_and_checkpoint(peer):
    """A crash after the second checkpoint's note was written, and before the checkpoint itself."""
    side = await filled(peer, 12)
    await side.sending.checkpoints.take()
    in_force = {path: side.files.read_bytes(path) for path in ("/store/checkpoint", "/store/gantry/log.note")}
    for number in range(12):
        side.send(peer, body=b"later %d" % number, queue_id=number % 4)
    side.flush()
    await side.sending.checkpoints.take()
    for path, content in in_force.items():
        side.files.replace_atomically(path, content)
    return side


async def test_a_cut_queue_file_is_detected_though_a_note_is_newer_than_the_checkpoint(peer):
    side = await between_note_and_checkpoint(peer)
    path = f"/store/consumequeue/orders/2/{0:020d}"
    file = side.files.open(path)
    file.truncate(30)
    file.close()
    again = side.reopen()
    assert again.opening.rebuild_reason is Reason.QUEUES
    assert bodies(again) == bodies(side)


async def test_a_note_newer_than_the_checkpoint_is_no_reason_to_rebuild(peer):
    side = await between_note_and_checkpoint(peer)
    again = side.reopen()
    assert not again.opening.is_rebuild
    assert bodies(again) == bodies(side)


async def test_the_note_of_the_valid_checkpoint_survives_rewrites_of_a_newer_one(peer):
    side = await between_note_and_checkpoint(peer)
    covered = side.reopen().store.checkpoint.position
    newest = load_note(side.store.note_file, None)
    assert covered < newest.position
    for retired in (
        {"a": {0: 1}},
        {"a": {0: 1}, "b": {0: 2}},
    ):  # a deletion during the write of the checkpoint
        save_note(side.store.note_file, encode_note(structs.replace(newest, retired=retired)), covered)
    chosen = load_note(side.store.note_file, covered)
    assert (chosen.position, chosen.retired) == (covered, {"a": {0: 1}, "b": {0: 2}})


async def test_a_topic_that_only_delayed_messages_need_is_back_though_the_backup_of_the_topics_lacks_it(peer):
    side = SendingSide()
    side.topics.ensure("first", 1)
    await side.save_topics()
    side.send(peer, body=b"later", queue_id=3, properties={"UNIQ_KEY": "U", "TIMER_DELAY_MS": "60000"})
    side.flush()
    await side.sending.checkpoints.take()
    side.files.open("/store/config/topics.json").pwrite(b"\xff\xfe{", 0)
    again = side.reopen()
    assert again.topics.find("first") is not None
    assert queue_count(again.topics.find("orders")) == 4


async def test_a_replica_finds_a_deletion_above_what_its_disk_knows_as_confirmed(peer):
    side = await filled(peer, 3)
    await side.sending.checkpoints.take()
    known = side.files.content("/store/checkpoint")
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.flush()
    assert not side.files.exists("/store/consumequeue/orders/0")
    side.files.replace_atomically("/store/checkpoint", known)  # a power cut may leave it
    again = side.reopen(replica="a")
    assert again.opening.replayed_end < again.log.end
    assert not again.opening.is_rebuild


async def test_a_replica_compares_a_note_only_with_what_it_has_replayed(peer, monkeypatch):
    """A crash came between the note and its checkpoint, and the disk does not know as confirmed what the note covers."""
    side = SendingSide()
    known = side.files.content("/store/checkpoint")
    side.send(peer, body=b"confirmed")
    side.flush()

    def fails(*_arguments):
        raise OSError(errno.EIO, "the power is cut")

    monkeypatch.setattr(side.store.checkpoint, "write", fails)
    with pytest.raises(OSError, match="power"):
        await side.sending.checkpoints.take()
    side.files.replace_atomically("/store/checkpoint", known)
    again = side.reopen(replica="a")
    assert again.opening.replayed_end < again.log.end
    assert not again.opening.is_rebuild
    for _ in again.opening.replay(again.log.end):
        pass
    assert [record.body for record in again.records()] == [b"confirmed"]
