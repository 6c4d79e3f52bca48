"""Clients take clocks, randomness and the process id from their machine."""

import random
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from gantrymq import ConfigurationError, Message, Producer
from gantrymq.formats.unique_ids import ClientIds
from gantrymq.machine import THIS_MACHINE, Machine, wall_ms
from gantrymq.producer.sending.preparing import Preparation
from gantrymq.producer.settings import ProducerSettings

NOW_MS = 1_700_000_000_000
FORK = """
import os, sys
from gantrymq.formats.unique_ids import ClientIds
from gantrymq.machine import THIS_MACHINE

ids = ClientIds(THIS_MACHINE)
reading, writing = os.pipe()
child = os.fork()
says = f"{THIS_MACHINE.process_id} {os.getpid()} {ids.next(1)[:24]} {THIS_MACHINE.rng.random()}"
if not child:
    os.write(writing, says.encode())
    os._exit(0)
os.waitpid(child, 0)
print(says)
print(os.read(reading, 1000).decode())
"""


@dataclass(frozen=True)
class SeededMachine:
    """A machine of a seed."""

    seed: int
    process_id: int = 7
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rng", random.Random(self.seed))

    def wall_ns(self) -> int:
        return NOW_MS * 1_000_000 + 999_999

    def steady(self) -> float:
        return 5.0

    def secret_bytes(self, size: int) -> bytes:
        return self.rng.randbytes(size)


def unique_id(machine: Machine) -> str | None:
    message = Message("T", b"x")
    Preparation(ProducerSettings(), "", machine).prepare(message, wall_ms(machine))
    return message.unique_id


def test_ids_of_messages_come_from_the_machine() -> None:
    assert wall_ms(SeededMachine(1)) == NOW_MS
    assert unique_id(SeededMachine(1)) == unique_id(SeededMachine(1))
    assert unique_id(SeededMachine(1)) != unique_id(SeededMachine(2))
    assert unique_id(THIS_MACHINE) != unique_id(THIS_MACHINE)


def test_a_client_is_given_its_machine_and_has_this_one_by_default() -> None:
    assert Producer("g", nameservers="127.0.0.1:9").client_settings.machine is THIS_MACHINE
    machine = SeededMachine(1)
    assert Producer("g", nameservers="127.0.0.1:9", machine=machine).client_settings.machine is machine
    with pytest.raises(ConfigurationError, match="unknown option machines"):
        Producer("g", nameservers="127.0.0.1:9", machines=machine)


def test_a_fork_has_ids_random_numbers_and_a_process_id_of_its_own() -> None:
    ran = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    parent, child = (line.split() for line in ran.stdout.splitlines())
    for process_id, real, *_ in (parent, child):
        assert process_id == real
    assert all(mine != other for mine, other in zip(parent, child, strict=True))


def test_two_clients_of_a_process_have_ids_of_their_own() -> None:
    ids = [ClientIds(THIS_MACHINE) for _ in range(2)]
    assert len({each.next(NOW_MS)[:24] for each in ids}) == 2
