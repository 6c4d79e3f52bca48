"""Every store acknowledges by its own disk alone: the checker must find lost messages."""

import sys

if "broker_store" in sys.orig_argv:
    from broker_store.replication.gate import Gate

    def advance(gate):
        end = gate._ends.get(gate._leader, -1)
        if end >= max(gate._start, gate.confirm or 0):
            gate.confirm = end

    Gate._advance = advance
