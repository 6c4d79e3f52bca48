"""docs/protocol.md names exactly the fields of our headers, with the same ones required."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from gantry_wire.codes import RequestCode
from gantry_wire.headers.access import (
    AccessKeyHeader,
    AclFilterHeader,
    DeleteAclHeader,
    GlobalWhiteAddressesHeader,
    PlainAccessHeader,
    SubjectHeader,
    UserFilterHeader,
    UserHeader,
)
from gantry_wire.headers.admin import (
    AllGroupConfigHeader,
    AllTopicConfigHeader,
    BrokerConsumeStatsHeader,
    CloneGroupOffsetHeader,
    ConsumerStatusHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    CorrectionOffsetHeader,
    CreateTopicHeader,
    DeleteGroupHeader,
    GroupForbiddenHeader,
    GroupHeader,
    GroupTopicHeader,
    ProducerGroupHeader,
    QueryConsumeQueueHeader,
    ResetOffsetHeader,
    StatsHeader,
)
from gantry_wire.headers.messages import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ConsumerSendBackHeader,
    PullHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueueHeader,
    RecallHeader,
    SearchOffsetHeader,
    SendHeader,
    SendHeaderV2,
    UnregisterClientHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
)
from gantry_wire.headers.nameserver import (
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerMemberGroupHeader,
    BrokerNameHeader,
    ClusterHeader,
    DeleteTopicInNamesrvHeader,
    KvKeyHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    RegisterBrokerHeader,
    RouteHeader,
    TopicHeader,
)
from gantry_wire.headers.pop import (
    ChangeInvisibleHeader,
    NotificationHeader,
    PeekHeader,
    PollingInfoHeader,
    PopAckHeader,
    PopHeader,
)
from gantry_wire.headers.typed_header import Header

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
ROW = re.compile(r"^\| (?P<codes>[0-9, ]+) \| (?P<names>[A-Z0-9_, ]+) \| (?P<fields>[^|]*) \|", re.MULTILINE)
FIELD = re.compile(r"`(?P<name>\w+)`(?P<required>!?)")

HEADERS: dict[int, type[Header]] = {
    10: SendHeader, 310: SendHeaderV2, 11: PullHeader, 361: PullHeader,
    12: QueryMessageHeader, 33: ViewMessageHeader, 14: QueryConsumerOffsetHeader,
    15: UpdateConsumerOffsetHeader, 29: SearchOffsetHeader, 30: QueueHeader,
    31: QueueHeader, 32: QueueHeader, 35: UnregisterClientHeader,
    38: ConsumerGroupHeader, 17: CreateTopicHeader, 215: TopicHeader,
    21: AllTopicConfigHeader, 351: TopicHeader, 201: AllGroupConfigHeader,
    352: GroupHeader, 207: DeleteGroupHeader, 202: TopicHeader,
    208: ConsumeStatsHeader, 317: BrokerConsumeStatsHeader, 315: StatsHeader,
    203: ConsumerGroupHeader, 204: ProducerGroupHeader, 300: TopicHeader,
    343: GroupHeader, 345: GroupTopicHeader, 105: RouteHeader,
    103: RegisterBrokerHeader, 104: BrokerIdentityHeader, 322: BrokerIdentityHeader,
    904: BrokerHeartbeatHeader, 901: BrokerMemberGroupHeader, 205: BrokerNameHeader,
    327: BrokerNameHeader, 224: ClusterHeader, 216: DeleteTopicInNamesrvHeader,
    217: TopicHeader, 100: PutKvConfigHeader, 101: KvKeyHeader,
    102: KvKeyHeader, 219: NamespaceHeader, 222: ResetOffsetHeader,
    36: ConsumerSendBackHeader, 370: RecallHeader, 223: ConsumerStatusHeader,
    303: ConsumeTimeSpanHeader, 308: CorrectionOffsetHeader, 314: CloneGroupOffsetHeader,
    321: QueryConsumeQueueHeader, 353: GroupForbiddenHeader,
    307: ConsumerRunningInfoHeader, 309: ConsumeDirectlyHeader,
    3001: UserHeader, 3002: UserHeader, 3003: UserHeader, 3004: UserHeader, 3005: UserFilterHeader,
    3006: SubjectHeader, 3007: SubjectHeader, 3008: DeleteAclHeader, 3009: SubjectHeader, 3010: AclFilterHeader,
    200050: PopHeader, 200051: PopAckHeader, 200052: PeekHeader, 200053: ChangeInvisibleHeader,
    200054: NotificationHeader, 200055: PollingInfoHeader,
    50: PlainAccessHeader, 51: AccessKeyHeader, 53: GlobalWhiteAddressesHeader,
}  # fmt: skip


def documented() -> dict[int, tuple[str, str]]:
    """Request code → (name, text of the fields column), from the tables of sections 8 and 9."""
    rows: dict[int, tuple[str, str]] = {}
    for found in ROW.finditer(DOCUMENT[DOCUMENT.index("## 8.") : DOCUMENT.index("## 10.")]):
        names = found["names"].split(", ")
        for number, code in enumerate(found["codes"].split(", ")):
            rows[int(code)] = (names[min(number, len(names) - 1)], found["fields"])
    return rows


ROWS = documented()


@pytest.mark.parametrize("code", sorted(HEADERS))
def test_documented_fields_are_the_fields_of_the_header(code):
    fields = {found["name"]: bool(found["required"]) for found in FIELD.finditer(ROWS[code][1])}
    fields = {name: required for name, required in fields.items() if name not in {"LOWER", "UPPER"}}
    assert fields == {info.encode_name: info.required for info in msgspec.structs.fields(HEADERS[code])}


@pytest.mark.parametrize("code", sorted(ROWS))
def test_documented_names_are_the_names_of_the_codes(code):
    assert RequestCode(code).name == ROWS[code][0]


def test_every_row_with_fields_is_compared():
    assert {code for code, (_, text) in ROWS.items() if FIELD.search(text)} == HEADERS.keys()
