"""The columns of the data source."""

import pytest

from gantry_spark.decode.schema import COLUMNS, DEFAULT_COLUMNS, UnknownColumn, arrow_schema, column, ddl


def test_column_names_ignore_case() -> None:
    assert column("QUEUEOFFSET") is COLUMNS["queueOffset"]


def test_a_property_is_a_text_column() -> None:
    assert column("property:orderId").ddl == "STRING"


@pytest.mark.parametrize("name", ["", "offset", "property:"])
def test_an_unknown_column_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownColumn, match="queueOffset"):
        column(name)


def test_bodies_and_properties_are_read_only_on_request() -> None:
    assert not {"body", "properties", "propertiesRaw"} & set(DEFAULT_COLUMNS)


def test_arrow_and_spark_name_the_same_columns() -> None:
    assert arrow_schema(("topic", "property:a b")).names == ["topic", "property:a b"]
    assert ddl(("topic", "queueId")) == "`topic` STRING, `queueId` INT"
