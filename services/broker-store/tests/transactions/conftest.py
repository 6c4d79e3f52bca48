"""Lets the tests of this folder import their side by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
