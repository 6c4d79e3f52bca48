"""The source: options, plans, batches and streams over the content of stores. Never sends and does not register itself with Spark."""
