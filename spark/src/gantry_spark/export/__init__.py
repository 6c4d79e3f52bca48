"""Exports of topics as tables that people keep: Parquet, Delta Lake or Iceberg, every message once.

A run reads the log from the committed position up to a snapshot's end, lets Spark's tasks write Parquet files beside the table, and
makes one commit that adds the files and moves the position. Only `committing.py` and the tables touch what readers see.
"""
