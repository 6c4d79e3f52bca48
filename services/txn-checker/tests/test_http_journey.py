"""Transactions over HTTP with processes: begin, commit, roll back, and a group that polls for its checks."""

import json
import urllib.error
import urllib.request

import pytest
from checker_processes import Process, until

pytestmark = [pytest.mark.cluster]
FAST = ("transaction_timeout_ms=300", "check_interval_ms=500", "poll_ms=50")


class Http:
    """A gateway over a nameserver, a store and a checker."""

    def __init__(self, directory):
        self.processes = []
        self.names = names = (
            f"nameservers=127.0.0.1:{self._start('nameserver', f'data_dir={directory}/ns', 'port=0').port}"
        )
        self.store = self._start(
            "broker_store",
            f"store_dir={directory}/a",
            "port=0",
            "broker_name=broker-a",
            names,
            "register_seconds=1",
            "send_wait_ms_max=60000",
        )
        self._start("txn_checker", "port=0", names, *FAST)
        self.gateway = self._start("gateway", "port=0", "grpc_port=0", names)

    def _start(self, module, *settings):
        process = Process(module, *settings)
        self.processes.append(process)
        return process

    def ask(self, method, path, body=None):
        """Return status and JSON."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.gateway.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def bodies(self):
        path = "/v1/topics/orders/queues/broker-a/0/messages?offset=0"
        return [message["body"] for message in self.ask("GET", path)[1].get("messages", [])]

    def begin(self, text):
        status, made = self.ask(
            "POST", "/v1/topics/orders/transactions", {"producerGroup": "shop", "message": {"body": text}}
        )
        assert status == 200, made
        return made["transactionId"]

    def end(self):
        for process in reversed(self.processes):
            process.stop()


@pytest.fixture
def http(tmp_path):
    http = Http(tmp_path)
    yield http
    http.end()


def test_begin_commit_roll_back_and_poll_for_a_check(http):
    until(
        lambda: http.ask("PUT", "/v1/topics/orders", {"readQueues": 1, "writeQueues": 1})[0] == 200,
        "the topic is there",
    )
    first, second = http.begin("one"), http.begin("two")
    assert http.bodies() == []
    assert http.ask("POST", f"/v1/transactions/{first}:commit")[1]["status"] == "committed"
    assert http.ask("POST", f"/v1/transactions/{second}:rollback")[1]["status"] == "rolledBack"
    assert http.bodies() == ["one"]
    assert http.ask("POST", f"/v1/transactions/{first}:commit")[0] == 200
    status, problem = http.ask("POST", f"/v1/transactions/{first}:rollback")
    assert (status, problem["code"]) == (409, "TRANSACTION_DECIDED")
    assert http.ask("GET", f"/v1/transactions/{second}")[1]["state"] == "rolledBack"

    silent = http.begin("three")
    received = []

    def checks():
        received[:] = http.ask("POST", "/v1/producerGroups/shop/checks:receive", {"waitSeconds": 5})[1][
            "checks"
        ]
        return received

    until(checks, "the group is asked")
    (check,) = received
    assert (check["transactionId"], check["message"]["topic"], check["message"]["body"]) == (
        silent,
        "orders",
        "three",
    )
    listed = http.ask("GET", "/v1/transactions")[1]["transactions"]
    assert [(one["transactionId"], one["state"]) for one in listed] == [(silent, "open")]
    assert http.ask("POST", f"/v1/transactions/{silent}:commit")[0] == 200
    assert http.bodies() == ["one", "three"]
    until(lambda: not http.ask("GET", "/v1/transactions")[1]["transactions"], "nothing is open")
