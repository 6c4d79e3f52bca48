"""Makes `spark.read.format("gantry")` known to Spark: Spark searches packages whose names start with pyspark_.

Only a name for Spark to find; the implementation is in `gantry_spark`.
"""

from gantry_spark.spark.data_source import GantrySource as DefaultSource

__all__ = ["DefaultSource"]
