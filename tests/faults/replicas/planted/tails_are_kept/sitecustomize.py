"""A follower keeps what no leader confirmed: the checker must find logs that differ."""

import sys

if "broker_store" in sys.orig_argv:
    from broker_store.replication.epochs import EpochTable

    EpochTable.common_end = lambda _table, end, _other, other_end: min(end, other_end)
