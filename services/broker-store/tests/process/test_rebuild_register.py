"""The register of a real group is lost, and made again from what its stopped stores remember."""

import contextlib
import shutil

import pytest
from group_stores import JETSTREAM, Sender, StoreGroup, ask_nats, run_python
from test_store_group import read_all, send_many

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def command(group, store, *words):
    """Run the command with the settings of a store."""
    chosen = {
        "store_dir": store.directory, "replica": store.name, "replicas": group.replicas, "nats_url": group.nats_url,
        "register_servers": group.servers,
    }  # fmt: skip
    settings = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    return run_python("-m", "broker_store.process.rebuild_register", *words, *settings)


def remembered(group, *names):
    """Write what these stores remember into a file, and return it."""
    lines = [command(group, group.stores[name], "remember") for name in names]
    assert [line.returncode for line in lines] == [0] * len(names), lines
    file = group.folder / "remembered"
    file.write_text("".join(line.stdout for line in lines))
    return str(file)


def stop_all(group):
    for store in group.stores.values():
        store.kill()


def lose_the_stream(group):
    name = ask_nats(group, f"{JETSTREAM}.NAMES")["streams"][0]
    assert ask_nats(group, f"{JETSTREAM}.DELETE.{name}")["success"]


def test_a_lost_register_is_made_again_and_nothing_is_lost(group):
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 50)
    lose_the_stream(group)
    group.wait(lambda: "rebuild_register" in leader.state()["registerFault"], "the fault names no command")
    acknowledged += send_many(leader, 50, 50)
    assert len(acknowledged) == 100, "a leader continues without its register"
    in_use = command(group, leader, "remember")
    assert (in_use.returncode, in_use.stdout) == (2, "")
    assert "is in use by another process" in in_use.stderr
    stop_all(group)
    group.start()
    assert not any(store.is_serving for store in group.stores.values()), "nobody leads without a register"

    def says_what_to_do():
        with contextlib.suppress(OSError):
            status, reason = leader.get("/health/ready")
            return status == 503 and "rebuild_register" in str(reason)
        return False

    group.wait(says_what_to_do, "a store that waits does not say what to do")
    stop_all(group)

    some = command(group, leader, "write", "--yes", "--from", remembered(group, "a", "b"))
    assert some.returncode == 2
    assert "nothing is known of c" in some.stderr
    all_of_them = remembered(group, "a", "b", "c")
    unsure = command(group, leader, "write", "--from", all_of_them)
    assert (unsure.returncode, "repeat it with --yes" in unsure.stderr) == (2, True)
    done = command(group, leader, "write", "--yes", "--from", all_of_them)
    assert done.returncode == 0, done.stderr
    assert "version 1" in done.stdout
    again = command(group, leader, "write", "--yes", "--from", all_of_them)
    assert "nothing to rebuild" in again.stderr

    group.start()
    group.wait_for_set(3)
    leader = group.leader()
    assert leader.state()["epoch"] > 1000
    assert read_all(leader) == acknowledged
    assert send_many(leader, 100, 10)
    group.wait(
        lambda: len({store.state()["endOffset"] for store in group.stores.values()}) == 1, "the logs differ"
    )


def test_the_replica_with_the_whole_log_leads_not_one_that_was_left_behind(group):
    leader = group.leader()
    group.wait_for_set(3)
    behind = next(store for store in group.stores.values() if store is not leader)
    behind.kill()
    group.wait_for_set(2)
    acknowledged = send_many(leader, 0, 30)
    lose_the_stream(group)
    stop_all(group)
    done = command(group, behind, "write", "--yes", "--from", remembered(group, "a", "b", "c"))
    assert done.returncode == 0, done.stderr
    assert f"and {behind.name} as the one replica" not in done.stdout
    group.start()
    group.wait_for_set(3)
    assert read_all(group.leader()) == acknowledged
    assert read_all(group.leader()) == acknowledged


def test_a_register_that_has_lost_records_is_replaced_only_where_asked(group):
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 10)
    stop_all(group)
    name = ask_nats(group, f"{JETSTREAM}.NAMES")["streams"][0]
    lose_the_stream(group)
    (group.folder / "other").mkdir()
    other = StoreGroup(group.folder / "other", group.nats_url, servers=1, names="x")
    other.stores["x"].start(ha_bootstrap="true")
    other.leader()
    other.close()
    assert ask_nats(group, f"{JETSTREAM}.NAMES")["streams"] == [name], "another beginning of the same broker"
    lines = remembered(group, "a", "b", "c")
    refused = command(group, leader, "write", "--yes", "--from", lines)
    assert refused.returncode == 2
    assert "--replace removes that stream" in refused.stderr
    done = command(group, leader, "write", "--yes", "--replace", "--from", lines)
    assert done.returncode == 0, done.stderr
    group.start()
    group.wait_for_set(3)
    assert read_all(group.leader()) == acknowledged


def test_a_lost_replica_has_to_be_named(group):
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 10)
    lose_the_stream(group)
    stop_all(group)
    lost = "c" if leader.name != "c" else "b"
    others = [name for name in "abc" if name != lost]
    done = command(group, leader, "write", "--yes", "--without", lost, "--from", remembered(group, *others))
    assert done.returncode == 0, done.stderr
    for name in others:
        group.stores[name].start()
    group.wait_for_set(2)
    assert read_all(group.leader()) == acknowledged
    assert Sender(group.leader().port).send(b"more").code == 0


def test_a_whole_register_whose_set_waits_for_lost_replicas_is_replaced_where_they_are_named(group):
    """Two of three lost their directories while none ran. The third one has everything, and may not lead without another of its set."""
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 10)
    stop_all(group)
    lost = [name for name in "abc" if name != leader.name]
    for name in lost:
        shutil.rmtree(group.stores[name].directory)
    lines, named = remembered(group, leader.name), [word for name in lost for word in ("--without", name)]
    for words in (["--replace"], named):
        refused = command(group, leader, "write", "--yes", *words, "--from", lines)
        assert refused.returncode == 2
        assert ("--without" if words == ["--replace"] else "--replace") in refused.stderr
    done = command(group, leader, "write", "--yes", "--replace", *named, "--from", lines)
    assert done.returncode == 0, done.stderr
    group.start()
    group.wait_for_set(3)
    assert group.leader().name == leader.name
    assert read_all(leader) == acknowledged
    assert Sender(leader.port).send(b"more").code == 0
