"""The folder of Spark's default database, for commands without tables: otherwise Spark creates `spark-warehouse` in the current folder."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def settings() -> dict[str, str]:
    """Return Spark's setting for a folder that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="gantry-warehouse-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.sql.warehouse.dir": folder.as_uri()}
