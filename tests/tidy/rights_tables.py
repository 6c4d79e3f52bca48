"""Generates the tables of rights in docs/access.md from the tables of gantry_access.

`python tests/tidy/rights_tables.py` rewrites them; the tidy test only compares.
"""

from __future__ import annotations

from pathlib import Path

from gantry_access.rights.document import rights_tables

GUIDE = Path(__file__).parents[2] / "docs/access.md"
HEADING = "## What each request needs: all rows\n\n"


def section(guide: str) -> str:
    """The text under the heading in the guide."""
    return guide.split(HEADING, 1)[1].split("\n## ", 1)[0]


if __name__ == "__main__":
    text = GUIDE.read_text()
    GUIDE.write_text(text.replace(section(text), rights_tables(), 1))
