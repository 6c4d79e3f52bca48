"""The helpers beside these tests are imported by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # attacker, also a program
