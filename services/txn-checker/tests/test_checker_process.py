"""Checker and store as processes: another producer answers for a dead one, another checker takes over from a dead one."""

import json
import urllib.request

import msgspec
import pytest
from checker_processes import Client, Process, until

from gantry_wire.bodies.json_body import decode_body
from gantry_wire.headers.messages import CheckTransactionHeader
from gantry_wire.private_requests.transactions import (
    ChecksPage,
    DecideTransaction,
    ListTransactions,
    ReceiveChecks,
    TransactionsPage,
    TransactionView,
)
from gantry_wire.records.message_record import decode_record

pytestmark = [pytest.mark.cluster]
COMMIT, ROLLBACK = 8, 12
FAST = (
    "transaction_timeout_ms=300", "check_interval_ms=500", "poll_ms=50", "claim_ttl_ms=1000", "poll_seconds=0.5",
    "check_max=10000",
)  # fmt: skip
"""Checks are counted from the first on, also while a store or a producer is still starting: a test that is about none gets them all."""


class System:
    """A nameserver, one store, and the checkers a test starts."""

    def __init__(self, directory):
        self.directory = directory
        self.processes, self.clients = [], []
        self.nameserver = self.start("nameserver", f"data_dir={directory}/ns", "port=0")
        self.names = f"nameservers=127.0.0.1:{self.nameserver.port}"
        self.store = self.start_store("broker-a")

    def start(self, module, *settings):
        process = Process(module, *settings)
        self.processes.append(process)
        return process

    def start_store(self, name, port=0):
        return self.start(
            "broker_store", f"store_dir={self.directory}/{name}", f"port={port}", f"broker_name={name}",
            self.names, "register_seconds=1", "send_wait_ms_max=60000",
        )  # fmt: skip

    def checker(self, *settings):
        return self.start("txn_checker", "port=0", self.names, *FAST, *settings)

    def client(self, store=None):
        client = Client((store or self.store).port)
        self.clients.append(client)
        return client

    def end(self):
        for client in self.clients:
            client.close()
        for process in reversed(self.processes):
            if process.process.poll() is None:
                process.stop()


@pytest.fixture
def system(tmp_path):
    system = System(tmp_path)
    yield system
    system.end()


def metric(process, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{process.http_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def ask(process, code, body, kind):
    client = Client(process.port)
    try:
        answer = client.ask(code, None, msgspec.json.encode(body))
        assert answer.code == 0, answer.remark
        return decode_body(answer.body, kind)
    finally:
        client.close()


def test_another_producer_of_the_group_commits_for_a_dead_one(system):
    system.checker()
    dying = system.client()
    dying.heartbeat("pg")
    half = dying.begin("U1", x="1")
    dying.close()
    other = system.client()
    other.heartbeat("pg")
    push = other.push()
    assert push.code == 39
    assert push.is_oneway
    asked = push.read(CheckTransactionHeader)
    assert (asked.msg_id, asked.transaction_id) == ("U1", "U1")
    assert push.ext["bname"] == "broker-a"
    shown = decode_record(push.body)
    assert (shown.topic, shown.queue_id, shown.body) == (b"orders", 0, b"body of U1")
    assert shown.property_map()["x"] == "1"
    assert asked.tran_state_table_offset > half.queue_offset, "the check is counted in a copy"
    other.answer_checks(COMMIT, lambda: other.bodies() == [b"body of U1"], "the message is delivered")


def test_an_unknown_answer_is_checked_again_until_parked_and_then_decided_by_hand(system):
    checker = system.checker("check_max=2")
    producer = system.client()
    producer.heartbeat("pg")
    producer.begin("U1")
    for attempt in (1, 2):
        shown = decode_record(producer.push().body)
        assert shown.property_map()["TRANSACTION_CHECK_TIMES"] == str(attempt)
    query = ListTransactions(state="parked")

    def parked():
        return ask(checker, 9020, query, TransactionsPage).transactions

    until(parked, "it is parked")
    (view,) = parked()
    assert (view.key, view.state, view.checks, view.topic, view.producer_group) == (
        "U1",
        "parked",
        2,
        "orders",
        "pg",
    )
    assert producer.bodies() == [], "giving up is no commit"
    order = DecideTransaction(key="U1", decision="commit", by="a person", reason="looked it up")
    decided = ask(system.store, 9021, order, TransactionView)
    assert (decided.state, decided.changed) == ("committed", True)
    assert producer.bodies() == [b"body of U1"]
    assert parked() == []


def test_a_transaction_decided_in_time_is_never_checked(system):
    checker = system.checker("check_interval_ms=60000")
    checker.pause()  # decisions on a busy machine are in time too
    producer = system.client()
    producer.heartbeat("pg")
    for number in range(50):
        half = producer.begin(f"U{number}")
        producer.end(
            COMMIT if number % 2 else ROLLBACK, offset=half.queue_offset, position=int(half.msg_id[-16:], 16),
            key=f"U{number}",
        )  # fmt: skip
    until(lambda: len(producer.bodies()) == 25, "commits are delivered")
    checker.resume()
    last = producer.begin("last")
    assert producer.push().read(CheckTransactionHeader).msg_id == "last"
    assert metric(checker, "txn_checker_checked_total{") == 1
    producer.end(ROLLBACK, offset=last.queue_offset, position=int(last.msg_id[-16:], 16), key="last")
    until(lambda: metric(checker, "txn_checker_undecided{") == 0, "the checker hears of it")


def test_one_of_two_checkers_works_and_the_other_takes_over_when_it_is_killed(system):
    first, second = system.checker(), system.checker()
    until(
        lambda: metric(first, "txn_checker_claim_held{") + metric(second, "txn_checker_claim_held{") == 1,
        "one holds",
    )
    holder, other = (first, second) if metric(first, "txn_checker_claim_held{") else (second, first)
    producer = system.client()
    producer.heartbeat("pg")
    producer.begin("U1")
    assert producer.push().read(CheckTransactionHeader).msg_id == "U1"
    holder.kill()
    took = until(lambda: metric(other, "txn_checker_claim_held{") == 1, "the other takes over")
    counted = decode_record(producer.push().body).property_map()["TRANSACTION_CHECK_TIMES"]
    assert int(counted) >= 2, "the count continues"
    assert took < 30


def test_a_stopped_store_is_checked_again_when_it_returns(system):
    system.checker()
    producer = system.client()
    producer.begin("U1")
    system.store.kill()
    system.store = system.start_store("broker-a", system.store.port)
    again = system.client()
    again.heartbeat("pg")
    assert again.push().read(CheckTransactionHeader).msg_id == "U1"
    again.answer_checks(COMMIT, lambda: again.bodies() == [b"body of U1"], "the message is delivered")


def test_a_producer_connected_elsewhere_is_asked_there_and_its_answer_reaches_the_store(system):
    second = system.start_store("broker-b")
    system.checker()
    here = system.client()
    here.begin("U1")
    there = system.client(second)
    there.heartbeat("pg")
    push = there.push()
    assert push.ext["bname"] == "broker-a"
    assert decode_record(push.body).body == b"body of U1"
    there.answer_checks(
        COMMIT, lambda: here.bodies() == [b"body of U1"], "the decision reaches the broker of the half"
    )


def test_polling_lists_checks_until_they_are_decided(system):
    checker = system.checker()
    until(lambda: metric(checker, "txn_checker_claim_held{") == 1, "the claim is held")
    nothing = ask(checker, 9022, ReceiveChecks(producer_group="pg"), ChecksPage)
    assert (nothing.checks, nothing.brokers) == ([], ["broker-a"])
    system.client().begin("U1")
    page = ask(checker, 9022, ReceiveChecks(producer_group="pg", wait_ms=30_000), ChecksPage)
    (check,) = page.checks
    assert (check.key, check.broker) == ("U1", "broker-a")
    assert check.attempt >= 1
    assert decode_record(check.record).body == b"body of U1"
    assert ask(checker, 9022, ReceiveChecks(producer_group="pg"), ChecksPage).checks, "still to be decided"
    assert ask(checker, 9022, ReceiveChecks(producer_group="other"), ChecksPage).checks == []
    ask(system.store, 9021, DecideTransaction(key="U1", decision="rollback"), TransactionView)
    until(
        lambda: not ask(checker, 9022, ReceiveChecks(producer_group="pg"), ChecksPage).checks,
        "the decided one is gone",
    )


def test_open_transactions_are_listed_before_their_first_check(system):
    checker = system.checker("transaction_timeout_ms=60000")
    until(lambda: metric(checker, "txn_checker_claim_held{") == 1, "the claim is held")
    producer = system.client()
    for number in range(3):
        producer.begin(f"U{number}", topic="orders" if number else "other")
    page = ask(checker, 9020, ListTransactions(topic="orders"), TransactionsPage)
    assert [(view.key, view.state, view.checks) for view in page.transactions] == [
        ("U1", "open", 0),
        ("U2", "open", 0),
    ]
    assert all(view.next_check_ms >= view.begun_ms + 60_000 for view in page.transactions)
    assert (page.truncated, page.brokers, page.incomplete) == (False, ["broker-a"], [])
    assert ask(checker, 9020, ListTransactions(limit=1), TransactionsPage).truncated


def test_it_is_ready_once_a_nameserver_answers_and_stops_in_order(system):
    checker = system.checker()
    until(lambda: _ready(checker), "ready")
    assert checker.stop() == 0
    assert "Traceback" not in checker.text


def _ready(process):
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{process.http_port}/health/ready", timeout=30
        ) as answer:
            return json.load(answer)["ready"]
    except urllib.error.HTTPError:
        return False
