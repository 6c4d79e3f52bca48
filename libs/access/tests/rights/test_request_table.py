"""Remoting requests: one case per rule of the table, retry topics, missing names, and codes without a row."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.limits import NEEDS_PER_REQUEST_MAX
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open
from gantry_access.model.resources import Resource
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.request_table import REQUESTS, requirements_of_request
from gantry_access.rights.rules import Read
from gantry_wire.codes import GantryCode
from gantry_wire.errors import MalformedBody, WireError


def ask(code, body=b"", **fields):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requirements_of_request(code, Asked(fields, content, "c1"))


def need(kind, name, *actions):
    return Need(Resource.parse(f"{kind}:{name}"), Action.parse_all(actions))


def topic(name, *actions):
    return need("TOPIC", name, *actions)


def group(name, *actions):
    return need("GROUP", name, *actions)


GET_CLUSTER, UPDATE_CLUSTER = need("CLUSTER", "c1", "GET"), need("CLUSTER", "c1", "UPDATE")
SUBSCRIPTION = {"topic": "t", "subString": "*"}
HEARTBEAT = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {"groupName": "g", "subscriptionDataSet": [SUBSCRIPTION, {"topic": "%RETRY%g", "subString": "*"}]},
        {"groupName": "h", "subscriptionDataSet": [{"topic": "%RETRY%other", "subString": "*"}]},
    ],
}
LOCKS = {
    "clientId": "c", "consumerGroup": "g",
    "mqSet": [{"topic": name, "brokerName": "b", "queueId": 0} for name in ("t", "%RETRY%g")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "name"), [(10, "topic"), (310, "b"), (320, "b"), (324, "topic"), (325, "b")]
)
def test_a_send_needs_pub_on_its_topic_and_of_a_retry_topic_sub_on_its_group(code, name):
    assert ask(code, **{name: "t"}) == (topic("t", "PUB"),)
    assert ask(code, **{name: "%RETRY%g", "a": "other", "producerGroup": "other"}) == (group("g", "SUB"),)
    assert ask(code, **{name: "%DLQ%g"}) == (topic("%DLQ%g", "PUB"),)
    assert ask(code, **{name: "GANTRY_SYS_TASKS"}) == (Inner(),)


@pytest.mark.parametrize(
    ("code", "name", "field"), [(10, "topic", "properties"), (310, "b", "i"), (320, "b", "i")]
)
def test_a_send_that_cancels_a_timed_message_needs_pub_on_that_messages_topic(code, name, field):
    def cancelling(what, before=""):
        properties = f"{before}TIMER_DEL_UNIQKEY\x01{what}\x02TIMER_DELIVER_MS\x019\x02"
        return ask(code, **{name: "mine", field: properties})

    assert cancelling("mine+K") == (topic("mine", "PUB"),)
    assert cancelling("theirs+K") == (topic("mine", "PUB"), topic("theirs", "PUB"))
    assert cancelling("theirs+K", "TIMER_DEL_UNIQKEY\x01mine+K\x02") == cancelling("theirs+K")
    assert cancelling("K") == (topic("mine", "PUB"), topic("*", "PUB"))  # it cancels one of any topic
    with pytest.raises(RightsRefused, match="topic is null"):
        cancelling("+K")


MANY = [f"t{number}" for number in range(NEEDS_PER_REQUEST_MAX + 1)]


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (208, {"consumerGroup": "g", "topicList": ";".join(MANY)}, b""),
        (308, {"compareGroup": "g", "topic": "t", "filterGroups": ",".join(MANY)}, b""),
        (308, {"compareGroup": "g", "topic": "t", "filterGroups": "g," * len(MANY)}, b""),
        (34, {}, {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": name, "subString": "*"} for name in MANY]}]}),
        (34, {}, {"clientID": "c", "consumerDataSet": [{"groupName": name} for name in MANY]}),
        (41, {}, {"clientId": "c", "consumerGroup": "g", "mqSet": [{"topic": name, "brokerName": "b", "queueId": 0} for name in MANY]}),
        (18, {}, {"topicConfigList": [{"topicName": name} for name in MANY]}),
        (225, {}, {"groupConfigList": [{"groupName": name} for name in MANY]}),
    ],
)  # fmt: skip
def test_a_request_cannot_name_so_much_that_its_decision_takes_long(code, fields, body):
    with pytest.raises(RightsRefused, match="names more than 10000 topics and groups"):
        ask(code, body, **fields)


@pytest.mark.parametrize("code", [310, 320, 325])
def test_the_long_name_of_a_field_does_not_replace_the_short_one(code):
    with pytest.raises(RightsRefused, match="topic is null"):
        ask(code, topic="mine")
    assert ask(code, topic="mine", b="theirs") == (topic("theirs", "PUB"),)


@pytest.mark.parametrize("code", [11, 361])
def test_a_pull_needs_topic_and_group_and_only_the_groups_own_retry_topic(code):
    assert ask(code, topic="t", consumerGroup="g") == (topic("t", "SUB"), group("g", "SUB"))
    assert ask(code, topic="%RETRY%g", consumerGroup="g") == (group("g", "SUB"),)
    with pytest.raises(RightsRefused, match=r"^retry topic does not match consumer group\.$"):
        ask(code, topic="%RETRY%g", consumerGroup="h")
    assert ask(code, topic="GANTRY_SYS_TASKS", consumerGroup="g") == (Inner(), group("g", "SUB"))
    assert ask(code, **PULL | {"topic": "GANTRY_SYS_TASKS"}, gantryBrowse="true") == (Inner(),)


PULL = {
    "topic": "t",
    "consumerGroup": "g",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "0",
}


@pytest.mark.parametrize(
    ("browse", "has_group"), [("true", False), ("1", False), ("false", True), ("x", True)]
)
def test_a_pull_needs_no_group_exactly_if_the_store_reads_without_one(browse, has_group):
    with_group, without = (topic("t", "SUB"), group("g", "SUB")), (topic("t", "SUB", "GET"),)
    assert ask(11, **PULL, gantryBrowse=browse) == (with_group if has_group else without)


CASES = [
    (12, {"topic": "t"}, b"", [topic("t", "SUB", "GET")]),
    (14, {"topic": "t", "consumerGroup": "g"}, b"", [topic("t", "SUB", "GET"), group("g", "SUB", "GET")]),
    (14, {"topic": "%RETRY%g", "consumerGroup": "g"}, b"", [group("g", "SUB", "GET")]),
    (15, {"topic": "t", "consumerGroup": "%RETRY%g"}, b"", [topic("t", "SUB", "UPDATE"), group("g", "SUB", "UPDATE")]),
    (17, {"topic": "t"}, b"", [topic("t", "CREATE")]),
    (18, {}, {"topicConfigList": [{"topicName": "t"}, {"topicName": "u"}]}, [topic("t", "CREATE"), topic("u", "CREATE")]),
    (21, {}, b"", [topic("*", "LIST")]),
    (25, {}, b"", [UPDATE_CLUSTER]),
    (26, {}, b"", [GET_CLUSTER]),
    (29, {"topic": "t"}, b"", [topic("t", "SUB", "GET")]),
    (30, {"topic": "t"}, b"", [topic("t", "SUB", "GET")]),
    (31, {"topic": "%RETRY%g"}, b"", [group("g", "SUB", "GET")]),
    (32, {"topic": "t"}, b"", [topic("t", "GET")]),
    (33, {"offset": "0", "topic": "t"}, b"", [topic("t", "GET"), OfRecord(Action.GET)]),
    (33, {"offset": "0"}, b"", [OfRecord(Action.GET)]),
    (34, {}, HEARTBEAT, [group("g", "SUB"), topic("t", "SUB"), group("h", "SUB"), group("other", "SUB")]),
    (34, {}, {"clientID": "c", "producerDataSet": [{"groupName": "p"}]}, [AnyUser()]),
    (35, {"clientID": "c", "producerGroup": "p", "consumerGroup": ""}, b"", [AnyUser()]),
    (35, {"clientID": "c", "consumerGroup": "g"}, b"", [group("g", "SUB")]),
    (36, {"group": "g"}, b"", [group("g", "SUB"), OfRecord(Action.SUB)]),
    (37, {"topic": "t"}, b"", [topic("t", "PUB"), OfRecord(Action.PUB)]),
    (37, {}, b"", [OfRecord(Action.PUB)]),
    (41, {}, LOCKS, [group("g", "SUB"), topic("t", "SUB")]),
    (42, {}, LOCKS, [group("g", "SUB"), topic("t", "SUB")]),
    (46, {}, {"clientId": "c", "group": "g", "subscriptionData": SUBSCRIPTION}, [topic("t", "SUB"), group("g", "SUB")]),
    (103, {"clusterName": "other"}, b"", [need("CLUSTER", "other", "UPDATE")]),
    (105, {"topic": "t"}, b"", [topic("t", "PUB", "SUB", "GET")]),
    (105, {"topic": "TBW102"}, b"", [AnyUser()]),
    (105, {"topic": "%RETRY%g"}, b"", [group("g", "SUB", "GET")]),
    (200, {}, {"groupName": "g"}, [group("g", "CREATE")]),
    (207, {"groupName": "%RETRY%g"}, b"", [group("g", "DELETE")]),
    (208, {"consumerGroup": "g", "topicList": "t;u;"}, b"", [group("g", "GET"), topic("t", "GET"), topic("u", "GET")]),
    (216, {"topic": "t"}, b"", [topic("t", "DELETE")]),
    (225, {}, {"groupConfigList": [{"groupName": "g"}, {"groupName": "h"}]}, [group("g", "CREATE"), group("h", "CREATE")]),
    (308, {"compareGroup": "g", "topic": "t", "filterGroups": "h,i"}, b"",
        [group("g", "GET"), topic("t", "GET"), group("h", "GET"), group("i", "GET")]),
    (309, {"consumerGroup": "g", "msgId": "x"}, b"", [group("g", "SUB"), OfRecord(Action.SUB)]),
    (314, {"srcGroup": "f", "destGroup": "g"}, b"", [group("f", "GET"), group("g", "UPDATE")]),
    (318, {}, b"k=v\n", [UPDATE_CLUSTER]),
    (400, {}, {"topic": "t", "consumerGroup": "g"}, [topic("t", "SUB"), group("g", "SUB")]),
    (401, {}, {"topic": "t", "consumerGroup": "g", "mode": "PULL"}, [topic("t", "SUB"), group("g", "UPDATE")]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "fields", "body", "expected"), CASES)
def test_the_requirements_of_a_request(code, fields, body, expected):
    assert list(ask(code, body, **fields)) == expected


@pytest.mark.parametrize("code", [25, 26, 317, 318])
def test_a_request_cannot_choose_the_cluster_that_it_changes(code):
    assert ask(code, clusterName="mine", cluster="mine")[0] in (GET_CLUSTER, UPDATE_CLUSTER)


INTRODUCTION = {GantryCode.INTRODUCE, GantryCode.PROVE}
"""With these a connection becomes that of one of our own services."""


@pytest.mark.parametrize("code", GantryCode)
def test_our_own_codes_are_for_our_own_services(code):
    assert ask(code, topic="t") == ((Open(),) if code in INTRODUCTION else (Inner(),))


@pytest.mark.parametrize(
    ("code", "body", "fields", "remark"),
    [
        (310, b"", {"b": " "}, "topic is null."),
        (11, b"", {"consumerGroup": "g"}, "topic is null."),
        (11, b"", {"topic": "t"}, "group is null."),
        (38, b"", {"consumerGroup": "%RETRY%"}, "group is null."),
        (46, {"subscriptionData": SUBSCRIPTION}, {}, "group is null."),
        (400, {}, {}, "topic is null."),
        (18, {"topicConfigList": [{"topicName": ""}]}, {}, "topic is null."),
        (2, b"", {"topic": "t"}, "authorization context is empty."),
        (17, b"", {"topic": "a*"}, "parse authorization context error."),
        (17, b"", {"topic": "x" * 256}, "parse authorization context error."),
        (38, b"", {"consumerGroup": "\ud800"}, "parse authorization context error."),
        (224, b"", {"cluster": "*"}, "parse authorization context error."),
        (9999, b"", {}, "authorization context is empty."),
    ],
)
def test_a_missing_name_or_row_is_refused_with_the_text_of_rocketmq(code, body, fields, remark):
    with pytest.raises(RightsRefused) as refused:
        ask(code, body, **fields)
    assert refused.value.remark == remark


@pytest.mark.parametrize("code", [18, 34, 41, 46, 200, 225, 400, 401])
def test_an_unreadable_body_is_malformed(code):
    with pytest.raises(MalformedBody):
        ask(code, b"{")


@pytest.mark.parametrize("code", REQUESTS)
def test_no_request_requires_nothing(code):
    body = {
        "clientID": "c",
        "clientId": "c",
        "groupName": "g",
        "group": "g",
        "consumerGroup": "g",
        "topic": "t",
        "subscriptionData": SUBSCRIPTION,
    }
    names = ("topic", "b", "group", "groupName", "consumerGroup", "compareGroup", "destGroup", "srcGroup")
    assert ask(code, body, **dict.fromkeys(names, "x"))


def test_the_topic_of_a_record_is_checked_once_it_is_known():
    later = OfRecord(Action.SUB)
    assert later.on("t") == topic("t", "SUB")
    assert later.on("%RETRY%g") == group("g", "SUB")
    assert later.on("GANTRY_SYS_TASKS") == Inner()
    assert later.everywhere == topic("*", "SUB")


NAMED = {code: row.fields_read for code, row in REQUESTS.items() if row.fields_read is not None}
FIELD_NAMES = sorted({name for names in NAMED.values() for name in names} | {"b", "a", "gantryBrowse"})
TEXTS = st.sampled_from(["", " ", "orders", "%RETRY%g", "TBW102", "GANTRY_SYS_ACKS", "a*b", "a;b", "a,b"])


def required_or_refusal(code, fields, body):
    try:
        return requirements_of_request(code, Asked(fields, body, "c"))
    except (RightsRefused, WireError) as error:
        return type(error), str(error)


@given(
    st.sampled_from(sorted(NAMED)),
    st.dictionaries(st.sampled_from(FIELD_NAMES), TEXTS),
    st.dictionaries(st.sampled_from(FIELD_NAMES), TEXTS),
    st.binary(max_size=8),
)
def test_the_fields_that_a_row_names_alone_make_its_requirements(code, fields, others, body):
    """A door remembers requirements by them."""
    kept = {name: value for name, value in others.items() if name not in NAMED[code]}
    same = {name: value for name, value in fields.items() if name in NAMED[code]}
    assert required_or_refusal(code, fields, b"") == required_or_refusal(code, same | kept, body)


def test_rows_that_read_a_body_name_no_fields():
    bodies = {code for code, row in REQUESTS.items() if any(isinstance(rule, Read) for rule in row.rules)}
    assert bodies
    assert bodies.isdisjoint(NAMED)
    assert len(NAMED) + len(bodies) == len(REQUESTS)


def test_codes_that_may_need_the_topic_of_a_record():
    assert {code for code, row in REQUESTS.items() if row.is_of_record} == {33, 36, 37, 309, 323}


@pytest.mark.parametrize("code", [200050, 200051, 200052, 200053, 200054, 200055])
def test_a_pop_and_its_acknowledgement_need_sub_on_topic_and_group(code):
    assert set(ask(code, topic="t", consumerGroup="g")) == {topic("t", "SUB"), group("g", "SUB")}
    for name in ("%RETRY%g_t", "%RETRY%g+t"):
        assert set(ask(code, topic=name, consumerGroup="g")) == {topic("t", "SUB"), group("g", "SUB")}
    assert list(ask(code, topic="%RETRY%g", consumerGroup="g")) == [group("g", "SUB")]
    for name in ("%RETRY%other", "%RETRY%other_t", "%RETRY%gt"):
        with pytest.raises(RightsRefused):
            list(ask(code, topic=name, consumerGroup="g"))


def test_a_batch_of_acknowledgements_needs_sub_on_each_topic_and_group():
    entry = {"c": "g", "t": "t", "so": 0, "q": 0, "rq": 0, "pt": 0}
    body = {"acks": [entry, {**entry, "c": "h", "t": "%RETRY%h_u", "r": "1"}]}
    assert set(ask(200151, body)) == {
        topic("t", "SUB"), group("g", "SUB"), topic("u", "SUB"), group("h", "SUB")
    }  # fmt: skip
