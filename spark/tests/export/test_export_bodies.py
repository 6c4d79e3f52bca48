"""JSON bodies as typed columns: three ways to write the schema; a body that does not match goes to the dead letters with the reason."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from export_made import job, rows, staged

from gantry_spark.export.bodies import schema as body_schema
from gantry_spark.export.bodies.decoder import BodyDecoder
from gantry_spark.export.failures import Refused


def field(name: str, kind, nullable: bool = True) -> dict:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


ITEM = {"type": "struct", "fields": [field("sku", "string"), field("n", "short")]}
ORDER = {
    "type": "struct",
    "fields": [
        field("id", "long", nullable=False),
        field("total", "decimal(5,2)"),
        field("at", "timestamp"),
        field("day", "date"),
        field("items", {"type": "array", "elementType": ITEM, "containsNull": True}),
        field(
            "rates", {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
        ),
    ],
}


def test_every_type_is_read() -> None:
    body = (
        b'{"id":1,"total":"1.50","at":"2026-01-01T01:00:00+01:00","day":"2026-01-02","more":1,'
        b'"items":[{"sku":"a","n":2},null],"rates":{"x":1,"y":null}}'
    )
    decoded = BodyDecoder(ORDER, "o_").decode([body, b'{"id":2,"at":"2026-01-01T00:00:00"}'])
    assert decoded.bad == []
    assert BodyDecoder(ORDER, "o_").fields[0].name == "o_id"
    assert [column[0].as_py() for column in decoded.columns] == [
        1, Decimal("1.50"), datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 2), [{"sku": "a", "n": 2}, None], [("x", 1.0), ("y", None)],
    ]  # fmt: skip
    assert [column[1].as_py() for column in decoded.columns] == [
        2,
        None,
        datetime(2026, 1, 1, tzinfo=UTC),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is empty"),
        (None, "the body is empty"),
        (b"null", "Expected `object`"),
        (b"[]", "Expected `object`"),
        (b"\xff", "malformed"),
        (b'{"id":1', "truncated"),
        (b'{"id":1} {"id":2}', "trailing"),
        (b"{}", "missing required field `id`"),
        (b'{"id":"1"}', "Expected `int`, got `str` - at `$.id`"),
        (b'{"id":9223372036854775808}', "$.id"),
        (b'{"id":1,"items":[{"n":32768}]}', "$.items[0].n"),
        (b'{"id":1,"total":12345.6}', "does not fit"),
        (b'{"id":1,"total":1.234}', "data loss"),
        (b'{"id":1,"at":"soon"}', "$.at"),
        (b'{"id":1,"rates":{"x":"1"}}', "$.rates"),
    ],
)
def test_a_body_that_does_not_fit_is_not_a_row_and_says_why(body: bytes | None, why: str) -> None:
    decoded = BodyDecoder(ORDER).decode([b'{"id":1}', body, b'{"id":2}'])
    assert decoded.rows == [0, 2]
    assert decoded.columns[0].to_pylist() == [1, 2]
    ((row, words),) = decoded.bad
    assert row == 1
    assert why in words


def test_a_schema_may_be_written_in_three_ways(tmp_path: Path) -> None:
    path = tmp_path / "schema"
    path.write_text(json.dumps(ORDER))
    assert body_schema.load(path, pytest.fail) == ORDER
    path.write_text("id BIGINT, name STRING\n")
    simple = {"type": "struct", "fields": [field("id", "long")]}
    assert body_schema.load(path, lambda ddl: simple if ddl == "id BIGINT, name STRING" else {}) == simple
    path.write_text(
        json.dumps(
            {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "integer"},
                    "small": {"type": "integer", "format": "int32"},
                    "at": {"type": ["string", "null"], "format": "date-time"},
                    "items": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"n": {"type": "number"}}},
                    },
                    "rates": {"type": "object", "additionalProperties": {"type": "boolean"}},
                },
            }
        )
    )
    inner = {"type": "struct", "fields": [field("n", "double")]}
    assert body_schema.load(path, pytest.fail)["fields"] == [
        field("id", "long", nullable=False),
        field("small", "integer"),
        field("at", "timestamp"),
        field("items", {"type": "array", "elementType": inner, "containsNull": True}),
        field(
            "rates", {"type": "map", "keyType": "string", "valueType": "boolean", "valueContainsNull": True}
        ),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ('{"type":"array"}', "write a Spark DDL"),
        ('{"type":"object","properties":{"a":{"oneOf":[]}}}', "at $.a has no single type"),
        ('{"type":"object","properties":{"a":{"type":["string","integer"]}}}', "at $.a has no single type"),
        ('{"type":"object","properties":{}}', "has no columns"),
        (
            '{"type":"object","properties":{"a":{"type":"string"},"A":{"type":"string"}}}',
            "Spark cannot distinguish",
        ),
    ],
)
def test_an_invalid_schema_names_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(Refused, match=says.replace("$", r"\$")):
        body_schema.load(path, pytest.fail)
    with pytest.raises(Refused, match="cannot read the schema"):
        body_schema.load(tmp_path / "none", pytest.fail)
    with pytest.raises(Refused, match="the type variant cannot be read"):
        BodyDecoder({"type": "struct", "fields": [field("v", "variant")]})


def test_dead_letters_are_next_to_the_table_with_body_and_reason_and_only_once(tmp_path: Path) -> None:
    out = tmp_path / "orders"
    bodies = [b'{"id":1}', b"broken", b'{"id":3}', b"broken too"]
    done = staged(job(out, "parquet", ORDER), rows([10, 20, 30, 40], bodies))
    (file,) = done.files
    assert pq.read_table(out / file.staged).column("id").to_pylist() == [1, 3]
    (dead,) = done.dead
    found = pq.read_table(f"{out}_dlq/{dead.staged}")
    assert found.column("body").to_pylist() == [b"broken", b"broken too"]
    assert all("malformed" in why for why in found.column("why").to_pylist())
    assert (dead.first, dead.last, dead.rows) == (20, 40, 2)
    again = staged(job(out, "parquet", ORDER, {"broker-a": 40}), rows([10, 20, 30, 40], bodies))
    assert [(file.first, file.rows) for file in again.dead] == [(40, 1)]
    assert [file.rows for file in again.files] == [2]
