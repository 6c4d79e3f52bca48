"""Starts a nameserver, a store and checkers on free ports, and a producer that speaks frames."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from gantry_wire.bodies.clients import HeartbeatData, ProducerData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import (
    CheckTransactionHeader,
    EndTransactionHeader,
    PullHeader,
    SendHeaderV2,
    SendReplyHeader,
)
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import scan_records

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [
    "libs/wire/src", "libs/link/src", "libs/chassis/src", "services/nameserver/src",
    "services/broker-store/src", "services/txn-checker/src", "services/gateway/src",
]  # fmt: skip
READY = re.compile(
    r"\bready\b(?:.*?(?:remoting|address)=[\d.]+:(?P<port>\d+))?.*?http(?:_port)?=(?:http://[\d.]+:)?(?P<http>\d+)"
)
PATIENCE_SECONDS = 60.0
ANSWER_SECONDS = 30.0


class Process:
    """One service."""

    def __init__(self, module, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in SOURCES)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := READY.search(line):
                self.http_port = int(found["http"])
                self.port = int(found["port"] or self.http_port)
                break
        else:
            raise AssertionError("".join(self.lines))
        self._drain = threading.Thread(target=lambda: self.lines.extend(self.process.stderr))
        self._drain.start()

    @property
    def text(self):
        return "".join(self.lines)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
        return self.end()

    def end(self):
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._drain.join()
        self.process.stderr.close()
        return status


class Client:
    """A blocking connection; requests pushed by the other side are kept apart from answers."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self._decoder = FrameDecoder()
        self._answers, self.pushes = [], []
        self._opaque = 0

    def close(self):
        self.socket.close()

    def ask(self, code, header=None, body=b"", *, oneway=False):
        self._opaque += 1
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.sendall(encode_request(code, self._opaque, header, body, oneway=oneway))
        while not oneway:
            while self._answers:
                answer = self._answers.pop(0)
                if answer.opaque == self._opaque:
                    return answer
            self._receive()
        return None

    def push(self, seconds=PATIENCE_SECONDS):
        """Return the next request of the other side."""
        end = time.monotonic() + seconds
        while not self.pushes:
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            self._receive()
        return self.pushes.pop(0)

    def answer_checks(self, decision, happened, words):
        """Answer every check as a client does, until a condition holds: an answer may be lost and its check repeated."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} s: {words}"
            try:
                asked = self.push(0.1).read(CheckTransactionHeader)
            except TimeoutError:
                continue
            self.end(
                decision, offset=asked.tran_state_table_offset, position=asked.commit_log_offset,
                key=asked.transaction_id, from_check=True,
            )  # fmt: skip

    def _receive(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("closed")
        for raw in self._decoder.receive(data):
            command = decode_command(raw)
            (self._answers if command.is_response else self.pushes).append(command)

    # The producer

    def heartbeat(self, group):
        data = HeartbeatData(client_id=f"c-{id(self)}", producer_data_set=[ProducerData(group_name=group)])
        assert self.ask(34, None, encode_body(data)).code == 0

    def begin(self, key, group="pg", topic="orders", **properties):
        named = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": key, **properties}
        header = SendHeaderV2(
            producer_group=group, topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
            sys_flag=4, born_timestamp=int(time.time() * 1000), flag=0,
            properties=format_properties(named).decode(),
        )  # fmt: skip
        answer = self.ask(310, header, f"body of {key}".encode())
        assert answer.code == 0, answer.remark
        return answer.read(SendReplyHeader)

    def end(self, decision, *, offset, position, key, group="pg", from_check=False, oneway=True):
        header = EndTransactionHeader(
            producer_group=group, tran_state_table_offset=offset, commit_log_offset=position,
            commit_or_rollback=decision, from_transaction_check=from_check, msg_id=key, transaction_id=key,
        )  # fmt: skip
        return self.ask(37, header, oneway=oneway)

    def bodies(self, topic="orders", queue_id=0):
        """Return every body of a queue, as a consumer sees it."""
        offset, bodies = 0, []
        while True:
            header = PullHeader(
                consumer_group="TOOLS_CONSUMER", topic=topic, queue_id=queue_id, queue_offset=offset,
                max_msg_nums=32, sys_flag=4, subscription="*",
            )  # fmt: skip
            answer = self.ask(11, header)
            records = list(scan_records(answer.body))
            if not records:
                return bodies
            bodies += [record.body for record in records]
            offset = records[-1].queue_offset + 1


def until(happened, words, seconds=PATIENCE_SECONDS):
    """Wait until a condition holds; return how long that took, in seconds."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {words}"
        time.sleep(0.02)
    return time.monotonic() - started
