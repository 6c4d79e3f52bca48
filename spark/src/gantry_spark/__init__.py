"""Spark over Gantry's log: a data source, reports, exports. Reads segment files; never writes in a store, never is a service."""
