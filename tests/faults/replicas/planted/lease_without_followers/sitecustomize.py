"""Every leader believes that it has its lease: the checker must find two."""

import sys

if "broker_store" in sys.orig_argv:
    from broker_store.replication.gate import Gate

    Gate.has_lease = lambda _gate, _now: True
