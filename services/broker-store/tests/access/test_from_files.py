"""Users of files are made once, lose to whatever an administrator did anywhere, and a bad file stops the start without showing a secret."""

import pytest
from access_side import AccessSide
from structlog.testing import capture_logs

from broker_store.access.from_files import UserFiles, add_users, read_user_files
from gantry_access.entries.entry import Entry, Key, Kind
from gantry_chassis.start_refusal import StartRefused

pytestmark = pytest.mark.anyio
PLAIN = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- {accessKey: RocketMQ, secretKey: 0123, topicPerms: [topicA=DENY, topicB=PUB|SUB], whiteRemoteAddress: 192.168.0.*}
- {accessKey: admin, secretKey: "12345678", admin: true}
- {accessKey: broken, topicPerms: [t=ALL]}
"""


@pytest.fixture
def files(tmp_path):
    def write(first: str = '{"username":"root","password":"hush"}', plain: str = PLAIN) -> UserFiles:
        (tmp_path / "first").write_text(first)
        (tmp_path / "plain").write_text(plain)
        return read_user_files(str(tmp_path / "first"), str(tmp_path / "plain"))

    return write


async def test_the_first_user_is_a_super_user_and_accounts_are_users_with_policies(files):
    side = AccessSide()
    with capture_logs() as logs:
        await side.finish(add_users(side.control.administration, files()))
    state = side.access_table.state
    types = {account.user.name: account.user.type.value for account in state}
    assert types == {"root": "Super", "RocketMQ": "Normal", "admin": "Super"}
    account = state.find("RocketMQ")
    assert account is not None
    assert [entry.text for entry in account.policies.custom] == [
        "Deny All on Topic:topicA",
        "Allow Pub, Sub on Topic:topicB from 192.168.0.0/24",
    ]
    words = str(logs)
    for said in ("globalWhiteRemoteAddresses", "white addresses", "'broken'", "no secretKey"):
        assert said in words
    assert "hush" not in words
    assert "0123" not in words


async def test_a_second_start_changes_nothing_and_brings_no_deleted_user_back(files):
    side = AccessSide()
    await side.finish(add_users(side.control.administration, files()))
    await side.done(3003, {"username": "RocketMQ"})
    await side.done(3002, {"username": "root"}, b'{"password":"changed"}')
    end = side.log.written_end
    again = side.reopen()
    await again.finish(add_users(again.control.administration, files()))
    assert again.entries == side.entries
    assert again.log.written_end == end


async def test_users_of_files_lose_to_those_of_other_stores_whatever_the_clocks_say(files):
    side = AccessSide()
    await side.finish(add_users(side.control.administration, files()))
    older = Entry(Kind.USER, "root", 2, None)
    await side.finish(side.access.log.keep([older]))
    assert side.access_table.state.find("root") is None


async def test_a_store_that_lost_all_its_users_makes_the_first_one_again(files):
    side = AccessSide()
    await side.finish(add_users(side.control.administration, files(plain="accounts: []")))
    await side.done(3003, {"username": "root"})
    await side.finish(add_users(side.control.administration, files(plain="accounts: []")))
    assert side.access_table.state.find("root") is not None
    entry = side.access_table.find(Key(Kind.USER, "root"))
    assert entry is not None
    assert entry.stamp_ms > 1


async def test_the_file_of_the_first_user_may_be_gone_and_a_start_without_any_user_names_it(tmp_path, files):
    """The secret does not stay on the disk once a store has taken it, and a killed store starts again."""
    side, gone = AccessSide(), str(tmp_path / "gone")
    with capture_logs() as logs:
        await side.finish(add_users(side.control.administration, read_user_files(gone, "")))
    assert [line["file"] for line in logs if line["log_level"] == "warning"] == [gone]
    await side.finish(add_users(side.control.administration, files(plain="accounts: []")))
    with capture_logs() as logs:
        await side.finish(add_users(side.control.administration, read_user_files(gone, "")))
    assert logs == []


@pytest.mark.parametrize(
    ("first", "plain"),
    [
        ("hush", PLAIN),
        ('{"username":"root"}', PLAIN),
        ('{"username":"","password":"hush"}', PLAIN),
        ('{"username":"root","password":" "}', PLAIN),
        ('{"username":"root","password":"hush"}', "accounts: [hush"),
        ('{"username":"root","password":"hush"}', "- " * 100_000),
    ],
)
def test_a_file_that_is_none_stops_the_start_and_shows_no_secret(files, first, plain):
    with pytest.raises(StartRefused) as refused:
        files(first, plain)
    assert "hush" not in str(refused.value)


def test_a_missing_file_of_accounts_stops_the_start(tmp_path):
    with pytest.raises(StartRefused, match="cannot read"):
        read_user_files("", str(tmp_path / "none"))
    assert read_user_files("", "") == UserFiles(None, None)
