"""The decoder, exports and reports with Spark."""
