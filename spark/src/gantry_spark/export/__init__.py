"""Exports topics as permanent tables: Parquet, Delta Lake or Iceberg, every message once.

A run reads the log from the committed position up to a snapshot's end, Spark's tasks write Parquet files next to the table, and
one commit adds the files and moves the position. Only `committing.py` and the tables touch what readers see.
"""
