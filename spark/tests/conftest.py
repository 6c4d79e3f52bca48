"""Lets the tests of this package import what they share by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
