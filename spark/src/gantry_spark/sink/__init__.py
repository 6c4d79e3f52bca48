"""The sink: options, rows as messages, sends through a gateway's HTTP API. Never reads a store."""
