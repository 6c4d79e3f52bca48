"""The target of a load: a running gateway, or a system started for the run and removed after it."""

import contextlib
import json
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path

from gantry_loadtest.options import Refused
from gantry_loadtest.running.progress import say

ROOT = Path(__file__).resolve().parents[4]
ASK_SECONDS_MAX = 10.0


def check(host: str) -> None:
    """Refuse a host that does not answer as a ready gateway."""
    try:
        with urllib.request.urlopen(f"{host}/health/ready", timeout=ASK_SECONDS_MAX) as answer:  # noqa: S310 - its scheme was checked
            parsed = json.load(answer)
    except urllib.error.HTTPError as error:
        raise Refused(f"{host} is not ready: it answers {error.code} to /health/ready") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise Refused(
            f"{host} does not answer ({why}); start one with ./gantry up, or leave --host out"
        ) from error
    if not isinstance(parsed, dict) or "stores" not in parsed:
        raise Refused(f"{host} answers, but is not a Gantry gateway")


@contextlib.contextmanager
def started() -> Generator[str]:
    """Start a system on free ports with its data in a temporary folder; stop it and delete the data at the end."""
    gantry = str(ROOT / "gantry")
    if not Path(gantry).is_file():
        raise Refused("there is no checkout here to start a system from: name a running one with --host")
    with tempfile.TemporaryDirectory(prefix="gantry-load-") as folder:
        data = str(Path(folder) / "data")
        command = [gantry, "up", "--free-ports", "--detach", "--json", "--data", data]
        signal.signal(signal.SIGTERM, _leave)  # until a run can end in order
        try:
            say("starting a system for this run (--host URL loads one that runs)")
            ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
            if ran.returncode != 0:
                raise Refused(f"`./gantry up` ended with {ran.returncode}: its last line above says why")
            yield json.loads(ran.stdout.splitlines()[-1])["http"]
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # nothing may interrupt this: the data is deleted next
            down = [gantry, "down", "--data", data]
            subprocess.run(down, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603


def _leave(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
