"""The `gantry` command: everything people and programs ask of a running system, over the gateway's HTTP API."""
