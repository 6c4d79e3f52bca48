"""The real services of a system: those that are paused are killed and started again, and no other."""

import os
import signal
from pathlib import Path

import pytest

from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.processes import control, supervisor
from gantry_launcher.processes.child import Child
from gantry_launcher.serving.serve import claim, supervisor_of
from gantry_launcher.serving.side_secrets import make_side_secrets

from .stepped import Stepped

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


class Services(Stepped):
    """A system with two gateways."""

    def __init__(self, folder: Path) -> None:
        super().__init__(self.log)
        data = DataDir(folder)
        options = UpOptions(folder, free_ports=True, gateway_workers=2, hung_seconds=6, asked_at=self.now)
        self.lock, self.ports = claim(data), Ports(("127.0.0.1",))
        plan = make_plan(options, self.ports, None, Replication(1))
        make_side_secrets(data, plan.nats)
        self.listener, self.output = control.listen(folder), Output(data.log, echo=False)
        self.supervisor = supervisor_of(options, plan, self.output, self.lock, self.listener, self.clock)
        self._log_file = data.log

    def start(self) -> None:
        """Return when all are ready."""
        for child in self.supervisor._children:
            self.supervisor._start(child)
        self.turn_until(self.supervisor._is_all_ready)
        self.supervisor._seconds = 0.0  # as `run` does

    def child(self, name: str) -> Child:
        return next(child for child in self.supervisor._children if child.plan.name == name)

    def log(self) -> str:
        return self._log_file.read_text() if self._log_file.exists() else ""

    def end(self) -> None:
        super().end()
        self.listener.close()
        self.output.close()
        self.ports.close()
        os.close(self.lock)


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    services = Services(tmp_path / "data")
    try:
        services.start()
        yield services
    finally:
        services.end()


def test_a_paused_store_and_one_paused_gateway_of_two_are_restarted(services: Services) -> None:
    paused = {services.child(name): services.child(name).pid for name in ("broker-a", "gateway-1")}
    for pid in paused.values():
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    while not all(child.restarts for child in paused):
        services.turn_for(1, but=paused)
    services.turn_until(services.supervisor._is_all_ready)
    services.turn_for(12)
    restarts = {child.plan.name: child.restarts for child in services.supervisor._children if child.restarts}
    assert restarts == {"broker-a": 1, "gateway-1": 1}
    for child, pid in paused.items():
        assert f"{child.plan.name} (pid {pid}) has answered nothing for 6 s" in services.log()
