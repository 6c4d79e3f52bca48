"""RocketMQ as a master with a slave in controller mode, which acknowledges what both have. Part of replicated_java.py.

The controller lives in the nameserver. `allAckInSyncStateSet` and `minInSyncReplicas=2` let a master acknowledge only what its whole in-sync set has. A
slave reports what it has written, synced or not.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator
from pathlib import Path

from measuring.system import end_process
from peers.rocketmq_run import BROKER_JVM, NAMESERVER_JVM, STOP_SECONDS_MAX, Broker, Java, free_port, wait_for

JOIN_SECONDS_MAX = 90.0
ADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
ADMIN_SECONDS_MAX = 30.0
_IN_SYNC = re.compile(r"SyncStateSetNums\s+(\d+)")


class NotInSync(Exception):
    """The slave does not join the in-sync set."""


@contextlib.contextmanager
def rocketmq_pair(java: Java, folder: Path, *, slave_on: str = "") -> Generator[Broker]:
    """Run nameserver, master and slave, with synced writes; yield once both are in sync. Raises NotInSync.

    `slave_on`: a folder for the data of the second broker.
    """
    folder.mkdir(exist_ok=True)
    names, controller = free_port(), free_port()
    conf = folder / "namesrv.conf"
    conf.write_text(
        f"listenPort={names}\nenableControllerInNamesrv=true\ncontrollerDLegerGroup=group1\n"
        f"controllerDLegerPeers=n0-127.0.0.1:{controller}\ncontrollerDLegerSelfId=n0\n"
        f"controllerStorePath={folder}/controller\n"
    )
    with contextlib.ExitStack() as running:
        words = ("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf))
        nameserver = java.start("namesrv", NAMESERVER_JVM, *words)
        running.callback(end_process, nameserver, STOP_SECONDS_MAX)
        wait_for(names, nameserver, java.log("namesrv"))
        wait_for(controller, nameserver, java.log("namesrv"))
        pids: list[int] = []
        for name in ("first", "second"):
            port = free_port(-2, 1)
            conf = folder / f"{name}.conf"
            conf.write_text(_broker(name, folder, port, names, controller, slave_on))
            broker = java.start(name, BROKER_JVM, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf))
            running.callback(end_process, broker, STOP_SECONDS_MAX)
            wait_for(port, broker, java.log(name))
            pids.append(broker.pid)
            _wait_in_sync(java, controller, len(pids))  # the first one is the master
        yield Broker(f"127.0.0.1:{names}", pids[0], nameserver.pid)


def _broker(name: str, folder: Path, port: int, names: int, controller: int, slave_on: str) -> str:
    store = folder / f"store-{name}" if name == "first" or not slave_on else Path(slave_on)
    return (
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=-1\nbrokerRole=SLAVE\nbrokerIP1=127.0.0.1\n"
        f"brokerIP2=127.0.0.1\nflushDiskType=SYNC_FLUSH\nlistenPort={port}\nhaListenPort={port + 1}\nnamesrvAddr=127.0.0.1:{names}\n"
        f"enableControllerMode=true\ncontrollerAddr=127.0.0.1:{controller}\nallAckInSyncStateSet=true\ntotalReplicas=2\ninSyncReplicas=2\n"
        f"minInSyncReplicas=2\nautoCreateTopicEnable=true\nstorePathRootDir={store}\nstorePathCommitLog={store}/commitlog\n"
        f"storePathEpochFile={store}/epochFileCache\nstorePathBrokerIdentity={store}/brokerIdentity\n"
    )


def _wait_in_sync(java: Java, controller: int, count: int) -> None:
    """Ask the controller until the in-sync set has so many members."""
    until = time.monotonic() + JOIN_SECONDS_MAX
    said = ""
    while time.monotonic() < until:
        admin = java.start(
            "mqadmin", (), ADMIN, "getSyncStateSet", "-a", f"127.0.0.1:{controller}", "-b", "broker-a"
        )
        admin.wait(ADMIN_SECONDS_MAX)
        said = java.log("mqadmin").read_text(errors="replace")
        found = _IN_SYNC.search(said)
        if found and int(found[1]) >= count:
            return
        time.sleep(1.0)
    raise NotInSync(
        f"mqadmin getSyncStateSet does not show {count} in sync after {JOIN_SECONDS_MAX:.0f} s: {' '.join(said.split())[-400:]}"
    )
