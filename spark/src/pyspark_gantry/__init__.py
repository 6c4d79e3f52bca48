"""Makes `spark.read.format("gantry")` known to Spark: it looks for packages whose names start with pyspark_.

Only a name for Spark to find; what it names is in `gantry_spark`.
"""

from gantry_spark.spark.data_source import GantrySource as DefaultSource

__all__ = ["DefaultSource"]
