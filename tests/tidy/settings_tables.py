"""Generates the tables of settings in docs/operations.md from the settings.

`python tests/tidy/settings_tables.py` rewrites them; the tidy test only compares.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from broker_store.settings import Settings as BrokerStoreSettings
from gantry_chassis.settings.loading import Setting, describe
from gateway.settings import GatewaySettings
from nameserver.settings import NameserverSettings
from scheduler.settings import SchedulerSettings
from txn_checker.settings import CheckerSettings

GUIDE = Path(__file__).parents[2] / "docs/operations.md"
SERVICES: dict[str, type[msgspec.Struct]] = {
    "nameserver": NameserverSettings,
    "broker-store": BrokerStoreSettings,
    "scheduler": SchedulerSettings,
    "txn-checker": CheckerSettings,
    "gateway": GatewaySettings,
}
NOT_SETTABLE = {"extra"}
HEAD = "| setting | default | what it does |\n|---|---|---|\n"


def table(service: str) -> str:
    """The table of one service, in the order of its settings file."""
    settings = [setting for setting in describe(SERVICES[service]) if setting.name not in NOT_SETTABLE]
    return HEAD + "".join(_row(setting) for setting in settings)


def section(guide: str, service: str) -> str:
    """The text under a service's heading in the guide."""
    return guide.split(f"### Settings of {service}\n\n", 1)[1].split("\n#", 1)[0]


def with_tables(guide: str) -> str:
    """The guide with generated tables."""
    for service in SERVICES:
        guide = guide.replace(section(guide, service), table(service), 1)
    return guide


def _row(setting: Setting) -> str:
    words = setting.description.replace("|", "\\|")
    return f"| `{setting.name}` | {_default(setting)} | {words} |\n"


def _default(setting: Setting) -> str:
    if isinstance(setting.default, str | Path):
        return f"`{setting.default}`" if str(setting.default) else "empty"
    return f"`{msgspec.json.encode(setting.default).decode()}`"


if __name__ == "__main__":
    GUIDE.write_text(with_tables(GUIDE.read_text()))
