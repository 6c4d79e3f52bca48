"""Decodes segments into Arrow batches: boundaries, columns, properties, damage. Uses only numpy and pyarrow, so that it ships to executors as a small zip."""
