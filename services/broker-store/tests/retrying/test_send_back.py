import pytest
from consumers_side import Consumers

from broker_store.config.delay_levels import DEFAULT
from broker_store.log.commit_log.commit_log import LogState
from gantry_wire.codes import ResponseCode
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC

pytestmark = pytest.mark.anyio
RETRY, DEAD = "%RETRY%g", "%DLQ%g"


@pytest.fixture
async def consumers():
    return Consumers()


async def test_a_message_sent_back_waits_out_level_three_for_the_retry_topic(consumers):
    side = consumers.side
    position = consumers.stored(flag=7, sys_flag=1, body=b"again")
    original = side.records()[0]
    answer = await consumers.back(position)
    assert (answer.code, answer.remark) == (0, None)
    copy = side.records(SCHEDULE_TOPIC, 2)[0]
    properties = copy.property_map()
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["DELAY"]) == (RETRY, "0", "3")
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("orders", original.message_id)
    assert (properties["WAIT"], properties["TAGS"], properties["UNIQ_KEY"]) == ("false", "a", "U1")
    assert properties["__GANTRY_ORIGIN"] == "orders:0:0"
    assert (copy.body, copy.flag, copy.sys_flag, copy.reconsume_times) == (b"again", 7, 1, 1)
    assert (copy.born_timestamp, copy.born_host) == (original.born_timestamp, original.born_host)
    config = side.topics.find(RETRY)
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


async def test_a_message_sent_back_is_counted_for_the_topic_it_was_first_in(consumers):
    await consumers.back(consumers.stored())
    await consumers.back(consumers.stored(properties={"RETRY_TOPIC": "first", "UNIQ_KEY": "U2"}))
    await consumers.back(consumers.stored(), group="unknown")
    assert consumers.sent_back == [("orders", "g"), ("first", "g")]


async def test_the_level_is_three_and_the_attempts_up_to_the_last(consumers):
    position = consumers.stored(reconsume_times=14)
    await consumers.back(position)
    copy = consumers.side.records(SCHEDULE_TOPIC, 16)[0]
    assert (copy.property_map()["DELAY"], copy.reconsume_times) == ("17", 15)
    assert DEFAULT.number(3 + 15) == 18


async def test_a_level_of_the_consumer_s_own_is_taken(consumers):
    await consumers.back(consumers.stored(reconsume_times=2), level=1)
    assert len(consumers.side.records(SCHEDULE_TOPIC, 0)) == 1


@pytest.mark.parametrize(("times", "level"), [(16, 0), (16, 5), (0, -1), (40, 0)])
async def test_used_up_or_sent_to_dead_letters_it_is_dead_at_once(consumers, times, level):
    await consumers.back(consumers.stored(reconsume_times=times), level=level)
    dead = consumers.side.records(DEAD)[0]
    properties = dead.property_map()
    assert (dead.reconsume_times, dead.queue_id, properties["DELAY"]) == (times + 1, 0, "0")
    assert properties["__GANTRY_DLQ_ATTEMPTS"] == str(times + 1)
    assert properties["__GANTRY_DLQ_CONSUMER"] == f"client@{consumers.peer.id}"
    assert properties["__GANTRY_ORIGIN"] == "orders:0:0"
    assert properties["__GANTRY_DLQ_REASON"] == (
        "the consumer gave it up" if level < 0 else "its 16 tries are used up"
    )
    config = consumers.side.topics.find(DEAD)
    assert (config.write_queue_nums, config.perm) == (1, 6)


async def test_a_dead_letter_keeps_the_error_its_consumer_gives(consumers):
    await consumers.back(consumers.stored(), level=-1, reason="card declined\n\x01at line 7")
    reason = consumers.side.records(DEAD)[0].property_map()["__GANTRY_DLQ_REASON"]
    assert reason == "card declined  at line 7"


@pytest.mark.parametrize(
    ("version", "asked", "is_dead"), [(479, 2, True), (120, 2, False), (479, None, False)]
)
async def test_the_client_sets_its_number_of_tries_from_its_version_on(consumers, version, asked, is_dead):
    await consumers.back(consumers.stored(reconsume_times=2), version=version, max_reconsume_times=asked)
    assert bool(consumers.side.records(DEAD)) is is_dead


async def test_a_second_failure_keeps_the_first_origin(consumers):
    first = consumers.stored()
    await consumers.back(first, level=-1)
    dead = consumers.side.records(DEAD)[0]
    await consumers.back(dead.position)
    properties = consumers.side.records(SCHEDULE_TOPIC, 3)[0].property_map()
    assert (properties["RETRY_TOPIC"], properties["__GANTRY_ORIGIN"]) == ("orders", "orders:0:0")
    assert properties["ORIGIN_MESSAGE_ID"] == consumers.side.records()[0].message_id


async def test_properties_of_the_copys_own_way_are_not_copied(consumers):
    properties = {
        "UNIQ_KEY": "U1", "__GANTRY_KEY": "k", "TIMER_DELAY_MS": "0", "TIMER_OUT_MS": "5", "REAL_TOPIC": "x",
    }  # fmt: skip
    await consumers.back(consumers.stored(properties=properties), level=-1)
    stored = consumers.side.records(DEAD)[0].property_map()
    assert not {"__GANTRY_KEY", "TIMER_DELAY_MS", "TIMER_OUT_MS", "REAL_TOPIC"} & set(stored)


async def test_a_group_s_own_policy_says_how_long_it_waits(consumers):
    consumers.group.attributes = {"gantry.retryPolicy": "list:250ms,7s"}
    before = consumers.side.clock.now_ms()
    await consumers.back(consumers.stored())
    await consumers.back(consumers.stored(reconsume_times=5))
    first, second = consumers.side.records(TIMER_TOPIC)
    assert int(first.property_map()["TIMER_OUT_MS"]) == before + 250
    assert int(second.property_map()["TIMER_OUT_MS"]) == before + 7000
    assert first.property_map()["REAL_TOPIC"] == RETRY
    assert (first.reconsume_times, second.reconsume_times) == (1, 6)


async def test_a_policy_without_a_wait_delivers_at_once(consumers):
    consumers.group.attributes = {"gantry.retryPolicy": "list:0s"}
    await consumers.back(consumers.stored())
    assert len(consumers.side.records(RETRY)) == 1


async def test_a_send_back_of_a_group_without_retries_is_answered_and_dropped(consumers):
    consumers.group.retry_queue_nums = 0
    position = consumers.stored()
    end = consumers.side.log.end
    assert (await consumers.back(position)).code == 0
    assert consumers.side.log.end == end


async def test_refusals_have_rocketmqs_codes(consumers):
    position = consumers.stored()
    assert (await consumers.back(position, group="none")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    for missing in (position + 1, 10**12, -5):
        answer = await consumers.back(missing)
        assert (answer.code, answer.remark) == (1, f"look message by offset failed, {missing}")
    consumers.side.sending.targets.set_broker_permission(4)
    answer = await consumers.back(position)
    assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] sending message is forbidden")


async def test_a_retry_topic_that_may_not_be_written_answers_16(consumers):
    consumers.side.topics.ensure(RETRY, 1, 4)
    answer = await consumers.back(consumers.stored())
    assert (answer.code, answer.remark) == (16, f"the topic[{RETRY}] sending message is forbidden")


async def test_a_message_from_before_a_crash_is_found_and_a_sent_back_one_survives(consumers):
    position = consumers.stored()
    await consumers.back(position)
    again = Consumers(consumers.side.reopen())
    assert len(again.side.records(SCHEDULE_TOPIC, 2)) == 1
    answer = await again.back(position)
    assert answer.code == 0
    assert len(again.side.records(SCHEDULE_TOPIC, 2)) == 2


async def test_a_message_damaged_on_disk_is_not_given_again(consumers):
    side = consumers.side
    position = consumers.stored(body=b"precious" * 10)
    consumers.stored(body=b"later")
    again = Consumers(side.reopen())
    segment = again.side.log.segments[0]
    at = segment.file.pread(4096, position - segment.start).index(b"precious")
    segment.file.pwrite(b"spoiled!", position - segment.start + at)
    answer = await again.back(position)
    assert (answer.code, answer.remark) == (1, f"look message by offset failed, {position}")


async def test_a_log_that_stopped_refuses_so_that_the_consumer_keeps_its_message(consumers):
    position = consumers.stored()
    consumers.side.log.state = LogState.STOPPED
    answer = await consumers.back(position)
    assert answer.code not in (0, 10, 11, 12)
    assert consumers.side.records(SCHEDULE_TOPIC, 2) == []


async def test_a_count_at_its_maximum_stays_and_harms_no_send(consumers):
    most = 2**31 - 1
    position = consumers.stored(reconsume_times=most)
    answer = await consumers.back(position)
    assert (answer.code, answer.remark) == (0, None)
    (dead,) = consumers.side.records(DEAD)
    assert dead.reconsume_times == most
    consumers.stored(properties={"UNIQ_KEY": "U2"})
    assert len(consumers.side.records()) == 2
