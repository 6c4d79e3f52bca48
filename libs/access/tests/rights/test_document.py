"""The generated tables contain every row."""

from gantry_access.rights.document import rights_tables
from gantry_access.rights.grpc_table import METHODS
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS
from gantry_access.rights.request_table import REQUESTS


def test_every_row_is_a_line_of_two_columns():
    lines = [line for line in rights_tables().splitlines() if line]
    rows = len(REQUESTS) + len(GATEWAY) + sum(map(len, OWN_PORTS.values())) + len(METHODS)
    assert len(lines) == rows + 4 * 2
    assert {line.count("|") for line in lines} == {3}


def test_a_row_names_the_request_and_its_needs():
    text = rights_tables()
    assert "| 325 SEND_REPLY_MESSAGE_V2 | Topic Pub (`b`), of a retry topic Group Sub |\n" in text
    assert "| `GET /v1/messages/{id}` | Topic Sub/Get (the record's topic; `topic`, if given) |\n" in text
    assert "| 9003 SETTLE | only Gantry's services |\n" in text
