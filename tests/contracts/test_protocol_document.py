"""docs/protocol.md names exactly the fields of our headers, with the same ones required."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from gantry_wire import headers
from gantry_wire.codes import RequestCode
from gantry_wire.header import Header

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
ROW = re.compile(r"^\| (?P<codes>[0-9, ]+) \| (?P<names>[A-Z0-9_, ]+) \| (?P<fields>[^|]*) \|", re.MULTILINE)
FIELD = re.compile(r"`(?P<name>\w+)`(?P<required>!?)")

HEADERS: dict[int, type[Header]] = {
    10: headers.SendHeader, 310: headers.SendHeaderV2, 11: headers.PullHeader, 361: headers.PullHeader,
    12: headers.QueryMessageHeader, 33: headers.ViewMessageHeader, 14: headers.QueryConsumerOffsetHeader,
    15: headers.UpdateConsumerOffsetHeader, 29: headers.SearchOffsetHeader, 30: headers.QueueHeader,
    31: headers.QueueHeader, 32: headers.QueueHeader, 35: headers.UnregisterClientHeader,
    38: headers.ConsumerGroupHeader, 17: headers.CreateTopicHeader, 215: headers.TopicHeader,
    21: headers.AllTopicConfigHeader, 351: headers.TopicHeader, 201: headers.AllGroupConfigHeader,
    352: headers.GroupHeader, 207: headers.DeleteGroupHeader, 202: headers.TopicHeader,
    208: headers.ConsumeStatsHeader, 317: headers.BrokerConsumeStatsHeader, 315: headers.StatsHeader,
    203: headers.ConsumerGroupHeader, 204: headers.ProducerGroupHeader, 300: headers.TopicHeader,
    343: headers.GroupHeader, 345: headers.GroupTopicHeader, 105: headers.RouteHeader,
    103: headers.RegisterBrokerHeader, 104: headers.BrokerIdentityHeader, 322: headers.BrokerIdentityHeader,
    904: headers.BrokerHeartbeatHeader, 901: headers.BrokerMemberGroupHeader, 205: headers.BrokerNameHeader,
    327: headers.BrokerNameHeader, 224: headers.ClusterHeader, 216: headers.DeleteTopicInNamesrvHeader,
    217: headers.TopicHeader, 100: headers.PutKvConfigHeader, 101: headers.KvKeyHeader,
    102: headers.KvKeyHeader, 219: headers.NamespaceHeader, 222: headers.ResetOffsetHeader,
    36: headers.ConsumerSendBackHeader, 370: headers.RecallHeader, 223: headers.ConsumerStatusHeader,
    303: headers.ConsumeTimeSpanHeader, 308: headers.CorrectionOffsetHeader, 314: headers.CloneGroupOffsetHeader,
    321: headers.QueryConsumeQueueHeader, 353: headers.GroupForbiddenHeader,
    307: headers.ConsumerRunningInfoHeader, 309: headers.ConsumeDirectlyHeader,
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
