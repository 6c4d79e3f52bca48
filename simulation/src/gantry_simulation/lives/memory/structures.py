"""Every table, cache and queue that a service keeps in memory, with what bounds it. A test finds those that are missing here.

A structure is an attribute: a class as `module:Class`, and the names of its attributes. Lists are named where work waits in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Names = Mapping[str, str]
"""Attributes, separated by spaces, by their class."""

EMPTY: Names = {
    "broker_store.commit.alone:AloneAnswers": "_waiting",
    "broker_store.commit.appends:Appends": "_waiting _open _own _placed",
    "broker_store.config_log.table_records:TableRecords": "_under_way _owed _waiting",
    "broker_store.state_records.entry_log:EntryLog": "_pending",
    "broker_store.commit.visible.visible_keys:VisibleKeys": "_held",
    "broker_store.groups.clients:ClientTable": "producers consumers _producer_ids _id_groups _produces _consumes",
    "broker_store.groups.clients_handler:ClientHandlers": "_changed",
    "broker_store.groups.offset_keeper:OffsetKeeper": "_held",
    "broker_store.leases.message_moves:MessageMoves": "_tasks",
    "broker_store.leases.waiting_receivers:Waiters": "_by_key _by_topic",
    "broker_store.log.snapshot:Snapshots": "_making",
    "broker_store.reading.filtered.fair_turns:FairTurns": "_waiting",
    "broker_store.reading.filtered.filtered_pulls:Scans": "_tasks",
    "broker_store.reading.held_pulls:HeldPulls": "_by_queue _by_tick _by_peer _by_wait",
    "broker_store.reading.pull_handler:Pulls": "_slow _woken",
    "broker_store.reading.repaired_reads:RepairRequests": "_running",
    "broker_store.replication.register_calls:RegisterCalls": "_tasks",
    "broker_store.replication.shell:Shell": "_inputs",
    "broker_store.requests.deferred_replies:DeferredReplies": "_tasks",
    "broker_store.requests.request_classes:RequestClass": "_entered_ms",
    "broker_store.sending.keyed:KeyedSends": "_claims",
    "broker_store.settling.claims:ClaimTable": "_claims",
    "broker_store.settling.request.ahead:Ahead": "_line",
    "broker_store.settling.request.slices:Slices": "_line",
    "broker_store.settling.settling:Settling": "deciding",
    "gantry_chassis.http.in_order:InOrder": "_items",
    "gantry_chassis.peers.budget:Budget": "_addresses",
    "gantry_link.calling.store_calls:StoreCalls": "_connecting",
    "gantry_link.connections.calls:Calls": "_pending",
    "gantry_link.connections.connection:Connection": "_unsent",
    "gantry_link.connections.pool:ConnectionPool": "_unintroduced",
    "gantry_link.connections.turn:Turn": "_work _writes",
    "gantry_link.serving.accepting:Accepting": "_begun",
    "gantry_link.serving.output_watch:OutputWatch": "_new _slow",
    "gateway.connection.fast_path:FastAnswers": "_tasks",
    "gateway.pull.pulling:Puller": "_held",
    "gateway.routing.route_cache:RouteCache": "_asking _changed_since_asked _hinted",
    "gateway.send.leader_waits:LeaderWaits": "_waiting",
    "nameserver.effects:Outside": "_notices",
}
"""What belongs to requests, connections and clients: nothing, once nobody is there. Held pulls and waiting receives have limits, too,
and requests in flight have those of their request class."""

LIMITED: Names = {
    "gantry_wire.bounded_cache:BoundedCache": "_entries<=._limit _keys<=._limit",
    "broker_store.filters.table:FilterTable": "_topics<=ENTRIES_MAX _topics_of<=ENTRIES_MAX",
    "broker_store.leases.lease_table.unseen:Unseen": "attempts<=ATTEMPTS_MAX",
    "broker_store.leases.receive_attempts:Attempts": "_known<=ATTEMPTS_MAX",
    "broker_store.log.commit_log.first_read:FirstReadCheck": "_starts<=INTERVALS_MAX _ends<=INTERVALS_MAX",
    "broker_store.log.files.file_pool:FilePool": "_open<=._open_max",
    "broker_store.opening.restore:Restore": "_codes<=CODES_KEPT_MAX",
    "broker_store.process.group.report:GroupReport": "_ends<=SAMPLES_MAX",
    "broker_store.replication.arriving:Arriving": "_begun<=SENDERS_MAX",
    "broker_store.reading.repaired_reads:RepairRequests": "_lost<=ASKED_MAX",
    "broker_store.replication.fresh_bytes:FreshBytes": "_pieces<=._bytes_max",
    "broker_store.replication.repairing:Repairing": "_waiting<=WAITING_MAX _failed_ms<=WAITING_MAX _lost<=WAITING_MAX",
    "broker_store.replication.replica_log:ReplicaLog": "damaged<=DAMAGED_MAX",
    "broker_store.settling.decided.settled_table:SettledTable": "_decisions<=DECISIONS_KEPT+ _older<=DECISIONS_KEPT+",
    "broker_store.transactions.half_copies:HalfCopies": "_decided<=DECIDED_KEPT+ _order<=DECIDED_KEPT+ _presumed<=DECIDED_KEPT+",
    "broker_store.transactions.half_messages.recent_halves:RecentHalves": (
        "_newer<=GENERATION_HALVES_MAX+ _older<=GENERATION_HALVES_MAX+"
    ),
    "broker_store.transactions.producer_checks:Relays": "halves<=RELAYS_MAX",
    "gantry_chassis.nats_hints:Hints": "_waiting<=WAITING_HINTS_MAX",
    "gateway.receive.receiving:Receiver": "_filters<=FILTERS_MAX",
    "gateway.routing.brokers:KnownBrokers": "_seen<=BROKERS_MAX",
    "gateway.routing.route_cache:RouteCache": "_routes<=TOPICS_MAX _stale<=TOPICS_MAX",
    "scheduler.delivering.cancel_records:CancelRecords": "_waiting<=WAITING_MAX",
    "scheduler.index.due_index:DueIndex": "failures<=FAILURES_MAX",
    "scheduler.index.due_queues:DueQueues": "_decided_unread<=DECIDED_UNREAD_MAX+",
    "scheduler.tasks.desk:Desk": "views<=TASKS_MAX",
    "txn_checker.answers:Answers": "_last<=GROUPS_MAX _handed_s<=HANDED_MAX+ _taken<=TAKEN_MAX+",
    "txn_checker.asking:Producers": "_last<=REMEMBERED_GROUPS_MAX",
}
"""At most a constant of the module, or an attribute of the object (`.`). With `+`, the entries of one turn come on top."""

TURN_MAX = 64
"""Entries of one turn, by which the newest generation of a cache may exceed its limit."""
OUTDATED_MAX = 1025
"""Entries that heaps of times keep although they mean nothing any more."""

RELATED: Mapping[tuple[str, str], Callable[[Any], int]] = {
    ("broker_store.leases.lease_table.lease_table:LeaseTable", "_timers"): (
        lambda table: 2 * len(table.runs) + OUTDATED_MAX
    ),
    ("txn_checker.undecided:Undecided", "_due"): lambda undecided: 2 * len(undecided) + OUTDATED_MAX,
}
"""Heaps of times: what ended early stays in them, but not for long."""

FEW_MAX = 400
"""Most entries in a life of what has one entry per …"""
FEW: Mapping[str, Names] = {
    "topic, queue or group, also of a system topic; most of it is in files as well": {
        "broker_store.commit.queues:QueueTable": "_queues _by_topic retired",
        "broker_store.commit.targets:Targets": "known _internal _changed",
        "broker_store.commit.topics:TopicTable": "_topics removing",
        "broker_store.config_log.config_entries:ConfigEntries": "unrecorded",
        "broker_store.state_records.keyed_entries:KeyedEntries": "_kept",
        "broker_store.groups.clients:ConsumerGroup": "subscriptions clients",
        "broker_store.groups.groups:GroupTable": "_groups",
        "broker_store.groups.locks.lock_table:LockTable": "_groups _of_peer",
        "broker_store.groups.committed_offsets:CommittedOffsets": "_offsets",
        "broker_store.groups.offset_log:OffsetLog": "_moved",
        "broker_store.groups.offsets:OffsetTable": "_committed _pulled _unsaved",
        "broker_store.groups.pending_resets:PendingResets": "_offsets",
        "broker_store.leases.receive_handler:Receiver": "active",
        "broker_store.leases.subscriptions:QueueLeases": "reasons",
        "broker_store.leases.subscriptions:Subscription": "queues",
        "broker_store.leases.subscriptions:Subscriptions": "_all _dropped",
        "broker_store.metrics.counts:Totals": "_others",
        "broker_store.metrics.store_metrics:StoreMetrics": "topics groups sent_back levels",
        "broker_store.opening.opening:Opening": "_awaited _deleted_topics",
        "broker_store.opening.queue_saving:QueueSaving": "_round",
        "broker_store.opening.restore:Restore": "_by_name _hashes awaited deleted",
        "broker_store.process.registration:Registration": "_changed _failing",
        "broker_store.settling.decided.settled_queue:SettledQueue": "_pages",
        "broker_store.settling.decided.settled_table:SettledTable": "_settled foreign_floors",
        "gantry_chassis.metrics:Family": "children",
        "scheduler.filling.catching_up:CatchingUp": "_targets _known",
        "scheduler.index.due_queues:DueQueues": "due",
        "scheduler.index.read_offsets:ReadOffsets": "_reading",
        "gateway.routing.route_cache:RouteCache": "_lists _stale_lists",
    },
    "user or token: administrators bound them": {
        "broker_store.access.access_entries:AccessEntries": "_came",
    },
    "store, nameserver or other process": {
        "broker_store.process.group.report:GroupReport": "_reported",
        "broker_store.replication.shell:Shell": "_unheard",
        "gantry_link.connections.calls:Deadlines": "_watched",
        "gantry_link.connections.pool:ConnectionPool": "_slots",
        "gantry_link.system_queues.claims:Claims": "held",
        "gantry_link.system_queues.fleet:Fleet": "stores _seen",
        "gateway.routing.claim_holders:ClaimHolders": "_known",
        "gateway.routing.leaders:Leaders": "_addresses",
        "gateway.routing.probe:Probe": "_latest _done",
        "gateway.routing.route_cache:Route": "brokers lately",
        "gateway.send.queue_choice:QueueChoice": "_turns",
        "gateway.send.sending:SilentBrokers": "until",
        "gateway.send.sending:Sender": "replicated",
        "nameserver.routes.tables:Tables": (
            "topics brokers clusters live filter_servers _topics_by_broker _clusters_by_broker _names_by_address "
            "_places_by_channel leaders"
        ),
        "scheduler.terms.keepers:Keepers": "_tasks _ending",
        "scheduler.terms.keepers:KnownStores": "by_broker",
        "txn_checker.assembly:CheckerProcess": "_watches _stores _leaving",
    },
    "hole of a log that a start found": {
        "broker_store.replication.filling:Filling": "_reported",
    },
    "replica of a group, or shipment in flight to one: at most 256": {
        "broker_store.replication.as_leader:Leading": "_sessions _arrived _unfit",
        "broker_store.replication.gate:Gate": "_ends _confirm_at_report _near _heard",
        "broker_store.replication.links:Links": "_addresses _names _connecting",
        "broker_store.replication.repairing:Repairing": "_answering _answered",
        "broker_store.replication.shipping:Shipping": "_followers",
        "broker_store.replication.shipping:_Follower": "in_flight",
    },
    "open file or segment": {
        "broker_store.groups.locks.lock_file:LockFile": "_open",
        "broker_store.log.commit_log.commit_log:CommitLog": "_unsynced dropped",
        "broker_store.log.consume_queues.queue_units:QueueUnits": "_unsynced",
        "broker_store.opening.checkpoints:Checkpoints": "_under_way",
        "broker_store.process.disk_care:DiskCare": "_removed",
        "broker_store.sending.key_journal:KeyJournal": "_newest_ms _sizes",
    },
    "undecided item or leased message: clients bound them": {
        "broker_store.leases.lease_table.lease_table:LeaseTable": "_due _by_key",
        "broker_store.leases.lease_table.runs:Runs": "_by_first",
        "broker_store.transactions.half_copies:HalfCopies": "_open _copies _with_copies",
        "scheduler.delivering.cancel_records:CancelRecords": "_new",
        "scheduler.delivering.deliveries:Deliveries": "_tasks",
        "scheduler.index.due_index:DueIndex": "near in_flight _ids",
        "scheduler.index.sqlite_index:SqliteIndex": "_removing _taking",
        "scheduler.index.sqlite_index:Unwritten": "_ids",
        "scheduler.tasks.desk:Desk": "running _newest",
        "txn_checker.store_watch:StoreWatch": "_marks",
        "txn_checker.undecided:Undecided": "_entries _groups",
    },
    "setting, route of the API or metric": {
        "broker_store.config.broker_config:BrokerConfig": "_given _values _changes kept refused",
        "broker_store.config_log.config_entries:ConfigEntries": "_newest",
        "broker_store.process.following.replayed_tables:ReplayedConfig": "_changed",
        "broker_store.process.parts.configuration:Configuration": "_records",
        "broker_store.requests.command_table:CommandTable": "_handlers _oneway",
        "gantry_chassis.peers.budget:Budget": "refusals",
        "gantry_chassis.process:Life": "restarts _tasks",
        "gateway.http.metrics:CallCounts": "_hot",
        "gateway.stores.redis_limits:RedisLimits": "_rates",
        "nameserver.remoting:Remoting": "_by_code",
        "nameserver.run_config:RunConfig": "_updated",
    },
}
"""What has no limit of its own, because it has one entry per …"""

PASSING = (
    "broker_store.commit.stamp:Stamp",
    "broker_store.filters.table:_File",
    "broker_store.filters.table:_OfTopic",
    "broker_store.groups.offset_keeper:_Gathered",
    "broker_store.groups.offset_log:_Dump",
    "broker_store.leases.queue_scan:Repairs",
    "broker_store.log.recovery.recovery:Recovery",
    "broker_store.opening.queue_note:QueueNote",
    "broker_store.replication.register.answers:StreamAnswer",
    "broker_store.replication.repairing:_Repair",
    "broker_store.settling.request.ahead:_Kept",
    "broker_store.settling.request.fast_settle:FastSettle",
    "broker_store.settling.request.slices:_Request",
    "broker_store.transactions.end_transaction.decision_records:DecisionRecords",
    "broker_store.transactions.end_transaction.decision_run:DecisionRun",
    "gantry_chassis.http.web_pages:WebPages",
    "gantry_chassis.logs.writer:LogWriter",
    "gantry_chassis.peers.budget:_Address",
    "gantry_link.connections.per_loop:PerLoop",
    "gantry_link.serving.peer:Peer",
    "gateway.http.call:Call",
    "gateway.receive.acking:Part",
    "gateway.receive.receiving:Batch",
    "gateway.requests.operations:Operation",
    "gateway.transactions.transactions:TopicRights",
    "nameserver.routes.tables:Change",
    "scheduler.delivering.burst_pace:BurstPace",
    "scheduler.tasks.running_task:TaskRecord",
)
"""Classes of one request, connection, start or file, and tables of fixed keys."""

OFF_IN_LIVES = (
    "broker_store.access.followed:Followed",
    "broker_store.access.other_stores:OtherStores",
    "broker_store.ha.server:HaServer",
    "gantry_chassis.nats_connection:NatsRequests",
    "gantry_link.grpc.connection:GrpcConnection",
    "gantry_link.grpc.deadlines:Deadlines",
    "gantry_link.grpc.reflection:Reflection",
    "gantry_link.http2.server:Http2Server",
    "gantry_link.serving.tls_door:OpenDoor",
    "gateway.grpc.clients:Client",
    "gateway.grpc.clients:Clients",
    "gateway.grpc.telemetry.group_settings:KnownGroups",
    "gateway.grpc.producing.orphans:Orphans",
    "gateway.grpc.consuming.renewals:Held",
    "gateway.grpc.consuming.renewals:Renewals",
    "gateway.grpc.self_signed:SelfSigned",
    "gateway.grpc.telemetry.telemetry:Commands",
    "gateway.grpc.telemetry.telemetry:TelemetryStream",
    "gateway.routing.topic_types:TopicTypes",
)
"""Classes of access control, TLS, gRPC, RocketMQ's slaves and the register in JetStream, which are off in lives: no census sees them."""

SMALL: Mapping[str, Mapping[str, int]] = {
    "broker_store.log.commit_log.first_read": {"INTERVALS_MAX": 4},
    "broker_store.opening.restore": {"CODES_KEPT_MAX": 2},
    "broker_store.sending.plain_sends": {"TEMPLATES_MAX": 2},
    "broker_store.transactions.half_messages.known_halves": {"SHAPES_MAX": 2},
    "broker_store.transactions.half_messages.recent_halves": {"GENERATION_HALVES_MAX": 2},
    "gateway.connection.fast_path": {"HEADS_MAX": 4},
    "gateway.receive.receiving": {"FILTERS_MAX": 1},
    "gateway.routing.route_cache": {"TOPICS_MAX": 1},
    "gateway.stores.link_leases": {"PATTERNS_MAX": 2, "STORES_MAX": 1},
    "gateway.stores.link_store": {"PATTERNS_MAX": 2, "STORES_MAX": 1},
    "scheduler.index.due_index": {"FAILURES_MAX": 1},
}
"""Limits of caches in lives that count memory: so low that each is reached."""
