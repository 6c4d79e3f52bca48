"""The helpers beside these tests are imported by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # access_texts and slow_evaluator, shared by these tests
