"""Spark over Gantry's log: a data source, reports, exports. Reads segment files; never writes to a store and runs no service."""
