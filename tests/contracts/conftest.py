"""Lets the tests of this folder share golden_files."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
