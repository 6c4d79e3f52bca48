"""Makes golden_files importable for the tests of this folder, and prints the table of HTTP clients at the end of a run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
ROW = "row of the table of HTTP clients"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each client with its version and result."""
    rows: dict[str, tuple[str, str, str]] = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            rows |= {value[0]: value for name, value in report.user_properties if name == ROW}
    if rows:
        terminalreporter.section("HTTP clients")
    for row in sorted(rows.values()):
        terminalreporter.write_line("{:24} {:62} {}".format(*row))
