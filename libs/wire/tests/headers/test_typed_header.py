"""Typed headers and text fields are two views of the same values."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_wire.errors import MissingField
from gantry_wire.headers import admin as admin_headers
from gantry_wire.headers import messages as message_headers
from gantry_wire.headers import nameserver as nameserver_headers
from gantry_wire.headers.admin import DeleteGroupHeader
from gantry_wire.headers.messages import OffsetReplyHeader, SendHeader, SendHeaderV2
from gantry_wire.headers.typed_header import Header, field_text, header_from_fields

KINDS = [
    kind
    for module in (admin_headers, message_headers, nameserver_headers)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_header_round_trips(kind, data, values_of):
    header = data.draw(values_of(kind))
    fields = header.to_fields()
    assert all(type(name) is str and type(value) is str for name, value in fields.items())
    assert header_from_fields(fields, kind) == header


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(fields=st.dictionaries(st.text(max_size=6), st.text(max_size=6)), data=st.data())
def test_any_text_fields_give_a_header_or_name_the_missing_field(kind, fields, data):
    names = list(kind.__struct_encode_fields__)
    known = data.draw(st.dictionaries(st.sampled_from(names), st.text(max_size=6)))
    with suppress(MissingField):
        assert isinstance(header_from_fields({**fields, **known}, kind), kind)


def test_a_send_with_long_or_short_names_is_one_header():
    assert issubclass(SendHeaderV2, SendHeader)
    letters, long_names = (list(kind.__struct_encode_fields__) for kind in (SendHeaderV2, SendHeader))
    assert letters[:14] == list("abcdefghijklmn")
    assert long_names[:4] == ["producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums"]
    assert long_names[13] == "bname"
    assert letters[14:] == long_names[14:]
    assert all(name.startswith("gantry") for name in letters[14:])


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), (True, "true"), (False, "false"), (-5, "-5"), (2**63, str(2**63)), (1.5, "1.5")],
)
def test_values_become_the_text_java_reads(value, text):
    assert field_text(value) == text


@pytest.mark.parametrize("text", ["+7", "7"])
def test_java_numbers_are_read(text):
    assert header_from_fields({"offset": text}, OffsetReplyHeader).offset == 7


@pytest.mark.parametrize("text", [str(2**63), "+9223372036854775808", "7x", "\u0667", "1" * 5000])
def test_numbers_that_do_not_fit_count_as_missing(text):
    with pytest.raises(MissingField):
        header_from_fields({"offset": text}, OffsetReplyHeader)


@pytest.mark.parametrize("name", ["cleanOffset", "removeOffset"])
def test_deleting_a_group_reads_the_flag_of_both_versions(name):
    header = header_from_fields({"groupName": "g", name: "true"}, DeleteGroupHeader)
    assert header.wants_clean_offset
    assert not header_from_fields({"groupName": "g"}, DeleteGroupHeader).wants_clean_offset
