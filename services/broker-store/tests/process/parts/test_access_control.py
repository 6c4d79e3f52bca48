"""What a store with access control demands at its start, and what its audit log shows of a change."""

import pytest

from broker_store.access.news import take_all
from broker_store.process.parts.access_control import demand_rows, shown_entry
from gantry_access.entries.contents import token_entry, user_entry
from gantry_access.entries.entry import Entry, Kind
from gantry_access.entries.table import AccessTable
from gantry_access.model.users import User
from gantry_access.rights.request_table import REQUESTS
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.tokens.stored_token import StoredToken
from gantry_chassis.start_refusal import StartRefused


def table() -> AccessTable:
    return AccessTable(SealingKeys({"k1": b"1" * 32}, "k1"))


def test_a_code_without_a_row_of_rights_stops_the_start():
    demand_rows(REQUESTS)
    with pytest.raises(StartRefused, match=r"\[7777\]"):
        demand_rows([10, 7777])


def test_the_audit_log_shows_no_secret_and_no_hash():
    user = user_entry(User("alice", secrets=("sealed1.k1.x.y",)), 5)
    assert shown_entry(user) == (
        '{"v":1,"user":"alice","type":"Normal","status":"enable","expiresMs":null,"secrets":1}'
    )
    token = token_entry(StoredToken("t1", "alice", b"h" * 32, (), 1, 2), 5)
    assert "hash" not in shown_entry(token)
    assert '"user":"alice"' in shown_entry(token)
    assert shown_entry(None) == shown_entry(user._replace(record=None)) == ""


def test_an_unreadable_entry_does_not_hide_the_others():
    found = table()
    bad = Entry(Kind.USER, "bad", 1, b'{"v":1}')
    take_all(found, [bad, user_entry(User("alice"), 1)])
    assert found.is_complete
    assert [account.user.name for account in found.state] == ["alice"]


def test_an_entry_of_a_later_version_stops_the_start():
    with pytest.raises(StartRefused, match="later version"):
        take_all(table(), [Entry(Kind.USER, "alice", 1, b'{"v":2}')])
