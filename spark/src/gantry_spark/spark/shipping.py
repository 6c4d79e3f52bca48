"""Packs the code into a zip that Spark gives to every Python process of a job, on this machine or another.

It contains this package, the layouts of `gantry_wire`, and `pyspark_gantry`, by which Spark finds the source by its name.
Compiled files are next to the sources, so that a worker of the same Python compiles nothing; another Python uses the sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import py_compile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGES: Final = ("gantry_spark", "gantry_wire", "pyspark_gantry")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path) -> Path:
    """Write the zip to `folder`, named by its content, and return its path."""
    sources = {
        f"{name}/{path.relative_to(root)}": path
        for name in PACKAGES
        for root in (_root(name),)
        for path in _files(root)
    }
    contents = {name: path.read_bytes() for name, path in sorted(sources.items())}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(name.encode() + b"\0" + content)
    target = folder / f"gantry_spark-{digest.hexdigest()[:16]}.zip"
    fresh = target.with_suffix(".part")
    with (
        zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive,
        tempfile.TemporaryDirectory() as scratch,
    ):
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
            if name.endswith(".py"):
                compiled = py_compile.compile(
                    str(sources[name]), f"{scratch}/m.pyc", name, doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )  # fmt: skip
                archive.writestr(
                    zipfile.ZipInfo(f"{name}c", _EPOCH),
                    Path(str(compiled)).read_bytes(),
                    zipfile.ZIP_DEFLATED,
                )
    fresh.replace(target)
    return target


def _root(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"the package {package} is not installed next to gantry_spark", name=package
        )
    return Path(spec.origin).parent


def _files(root: Path) -> list[Path]:
    """Return the files of a package: its modules and their data, such as SQL."""
    return [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
