"""Reading: options, the plan of a read, batches and streams over what stores hold. Never sends and never registers itself with Spark."""
