"""Where Spark keeps the tables of its default database, for commands that make none: else it makes `spark-warehouse` where the user stands."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def settings() -> dict[str, str]:
    """Return Spark's setting for a folder that goes when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-warehouse-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.sql.warehouse.dir": folder.as_uri()}
