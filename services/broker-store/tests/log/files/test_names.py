"""Names of the log's files."""

from broker_store.log.files.names import file_name, parse_file_name


def test_names_have_twenty_digits():
    assert file_name(1073741824) == "00000000001073741824"
    assert parse_file_name("00000000001073741824") == 1073741824
    assert parse_file_name("1073741824") is None
    assert parse_file_name("0000000000107374182x") is None
