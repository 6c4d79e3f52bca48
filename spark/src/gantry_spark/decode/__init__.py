"""Segments as Arrow batches: boundaries, columns, properties, damage. numpy and pyarrow only, so that it ships to executors as a small zip."""
