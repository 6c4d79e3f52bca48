"""Every setting of a store with its default, unit and bounds.

Names that RocketMQ has keep its meaning (broker_conf.py maps them).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.http.web_pages import AllowedHosts
from gantry_chassis.settings.access import AccessSettings
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT

MIB = 1024 * 1024

Port = Annotated[int, Meta(ge=0, le=65535)]
Switch = bool


def _help(text: str) -> Meta:
    return Meta(description=text)


class Settings(AccessSettings, frozen=True, kw_only=True):
    """Settings of one broker-store process."""

    # addresses and names
    listen: Annotated[str, _help("Address every port is bound to.")] = "127.0.0.1"
    port: Annotated[Port, _help("Remoting port; the fast port is 2 below, HTTP 2 above.")] = 10911
    fast_port: Annotated[Port, _help("Port for sends only; 0 = port - 2.")] = 0
    http_port: Annotated[Port, _help("Health, metrics and snapshots; 0 = port + 2.")] = 0
    allowed_hosts: AllowedHosts = ""
    claim_any_host: Annotated[
        Switch,
        _help(
            "A scheduler or txn-checker may name any host as its own to gateways; off: the host that its connection comes from. For networks that change addresses."
        ),
    ] = False
    advertise: Annotated[
        str,
        _help(
            "Address for nameservers and message ids; empty: the listen address, or the one that packets leave from if it listens on all."
        ),
    ] = ""
    cluster_name: Annotated[
        str, Meta(min_length=1, max_length=127), _help("Cluster this broker belongs to.")
    ] = "DefaultCluster"
    broker_name: Annotated[str, Meta(min_length=1, max_length=127), _help("Name of this broker.")] = (
        "broker-a"
    )
    nameservers: Annotated[
        str, _help("host:port;host:port, or the http address of a list; empty = none.")
    ] = ""
    nats_url: Annotated[str, _help("URLs of NATS for hints, with commas between them; empty = none.")] = ""
    nats_token_file: Annotated[
        str, _help("File that holds the token of NATS; empty: none is needed, or nats_url contains it.")
    ] = ""
    replica: Annotated[
        str,
        Meta(max_length=64),
        _help(
            "Name of this store within its broker group, whose name is broker_name. One name belongs to one directory. Empty: the store has no replicas."
        ),
    ] = ""
    replicas: Annotated[
        str,
        _help("All stores of the group with their remoting addresses: a=host:port;b=host:port;c=host:port."),
    ] = ""
    register_servers: Annotated[
        int, Meta(ge=1, le=5), _help("NATS servers that keep the group's register; 1 for trials.")
    ] = 3
    min_in_sync: Annotated[
        int,
        Meta(ge=0, le=9),
        _help(
            "Stores that must have a message before it is acknowledged; with fewer, sends are refused. 0: 2 of 3, 1 of 2, 3 of 5."
        ),
    ] = 0
    replication: Annotated[
        Literal["sync", "async"],
        _help(
            "With replicas. sync: answer when every store in sync has the message; async: plain sends when the leader's own disk has it, so that a takeover may lose the last ones."
        ),
    ] = "sync"
    lease_ms: Annotated[
        int, Meta(ge=200, le=60_000), _help("A follower silent for this long leaves the in-sync set.")
    ] = 1000
    grace_ms: Annotated[
        int, Meta(ge=300, le=120_000), _help("A leader silent for this long is replaced; more than lease_ms.")
    ] = 1500
    copy_bytes_per_second: Annotated[
        int,
        Meta(ge=0, le=1 << 40),
        _help(
            "Bytes a second that a leader reads from files for one replica that is behind, and sends to one slave of RocketMQ; 0: no limit."
        ),
    ] = 128 * 1024 * 1024
    ha_bootstrap: Annotated[
        Switch,
        _help("Make the register of a new group. For one store of the group, at its first start only."),
    ] = False
    ha_bootstrap_once: Annotated[
        str,
        _help(
            "File that remembers that the group's register was made: while it is missing, as ha_bootstrap. For one store of the group, outside its store_dir. This setting may stay. Empty: none."
        ),
    ] = ""
    ha_protocol: Annotated[
        Literal["off", "on", "unprotected"],
        _help(
            "Let RocketMQ's slaves copy the log over its HA protocol, which has no TLS and no users. on: for stores without both; unprotected: with them, too; then everybody that reaches the HA port can read every message."
        ),
    ] = "off"
    ha_port: Annotated[Port, _help("HA port; 0 = port + 1.")] = 0
    register_seconds: Annotated[
        float, Meta(ge=0.05, le=60), _help("Interval of registrations with the nameservers.")
    ] = 30.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _help("Lowest level that is logged.")
    ] = "info"
    log_json: Annotated[Switch, _help("Log as JSON lines.")] = False
    log_file: Annotated[
        str,
        _help("File to log into, with all of stdout and stderr; moved aside to .1 at 8 MiB. Empty: stderr."),
    ] = ""
    idle_seconds: Annotated[
        float, Meta(gt=0, le=86400), _help("A connection silent for this long is closed.")
    ] = 120.0
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60), _help("How long a shutdown waits for requests in flight.")
    ] = 5.0

    access_initial_user_file: Annotated[
        str,
        _help(
            'File with {"username": …, "password": …}: a Super user, made at a start that finds no user; the file may be gone afterwards. Needs access_key_file.'
        ),
    ] = ""
    plain_acl_file: Annotated[
        str,
        _help(
            "plain_acl.yml of RocketMQ 4.9: a start makes users of its accounts, except those that exist or were deleted. Needs access_key_file."
        ),
    ] = ""

    extensions: Annotated[
        str, Meta(max_length=4096), _help("Extensions to load, separated by commas; see docs/extensions.md.")
    ] = ""

    # the log
    store_dir: Annotated[Path, _help("Directory of commitlog/, consumequeue/, index/, config/, gantry/.")] = (
        Path("data/store")
    )
    flush: Annotated[
        Literal["sync", "async"], _help("sync: answer after fdatasync; async: after the write.")
    ] = "sync"
    flush_interval_ms: Annotated[
        int, Meta(ge=1, le=500), _help("Under async flush, longest time until fdatasync.")
    ] = 500
    flush_timeout_ms: Annotated[
        int,
        Meta(ge=10, le=60_000),
        _help("A send waiting longer for its flush is answered FLUSH_DISK_TIMEOUT."),
    ] = 5000
    segment_bytes: Annotated[int, Meta(ge=MIB, le=4096 * MIB), _help("Size of a CommitLog file.")] = (
        1024 * MIB
    )
    message_bytes_max: Annotated[int, Meta(ge=1, le=4 * MIB), _help("Largest message body.")] = 4 * MIB
    index_enable: Annotated[Switch, _help("Index messages by key and unique key.")] = True
    queue_file_units: Annotated[
        int, Meta(ge=64, le=10_000_000), _help("Units of 20 bytes in a ConsumeQueue file.")
    ] = 300_000
    index_slots: Annotated[int, Meta(ge=64, le=100_000_000), _help("Hash slots of an index file.")] = (
        5_000_000
    )
    index_entries: Annotated[int, Meta(ge=64, le=100_000_000), _help("Entries of an index file.")] = (
        20_000_000
    )
    checkpoint_seconds: Annotated[float, Meta(ge=0.05, le=600), _help("Most time between checkpoints.")] = 5.0
    checkpoint_bytes: Annotated[
        int, Meta(ge=MIB, le=1024 * MIB), _help("Most log bytes between checkpoints.")
    ] = 48 * MIB
    zero_ahead_bytes: Annotated[
        int, Meta(ge=0, le=1024 * MIB), _help("How far ahead of the log's end blocks are zeroed; 0 = not.")
    ] = 64 * MIB

    # retention and disk
    reserved_hours: Annotated[
        float,
        Meta(ge=0.001, le=24 * 3650),
        _help("CommitLog files older than this are deleted; 0.5 is half an hour."),
    ] = 72
    delete_when: Annotated[
        str,
        Meta(pattern=r"^\d{1,2}(;\d{1,2})*$"),
        _help("Hours of the day at which old files are deleted, as 04;13."),
    ] = "04"
    disk_ratio_max: Annotated[
        int, Meta(ge=10, le=95), _help("Percent of disk use above which old files are deleted at any hour.")
    ] = 75
    free_bytes_min: Annotated[int, Meta(ge=0), _help("Sends are refused below this much free disk.")] = (
        192 * MIB
    )
    ballast_bytes: Annotated[
        int, Meta(ge=0, le=1024 * MIB), _help("Reserve that is freed when the disk is full.")
    ] = 64 * MIB

    # topics and groups
    auto_create_topics: Annotated[Switch, _help("A send may create its topic after TBW102.")] = True
    auto_create_groups: Annotated[Switch, _help("A consumer may create its group.")] = True
    topic_queues_default: Annotated[
        int, Meta(ge=1, le=1024), _help("Queues of the template topic TBW102.")
    ] = TOPIC_QUEUES_DEFAULT
    broker_permission: Annotated[
        int, Meta(ge=0, le=6), _help("2 write, 4 read, 6 both; masks the topics' own.")
    ] = 6
    cluster_topic_enable: Annotated[
        Switch, _help("A topic named as the cluster may be used as template.")
    ] = True
    broker_topic_enable: Annotated[Switch, _help("A topic named as the broker may be used as template.")] = (
        True
    )
    trace_topic_enable: Annotated[Switch, _help("Create RMQ_SYS_TRACE_TOPIC at start.")] = True
    region: Annotated[
        str, Meta(min_length=1, max_length=127), _help("MSG_REGION of stored messages and replies.")
    ] = "DefaultRegion"
    trace_on: Annotated[Switch, _help("TRACE_ON of stored messages and replies.")] = True

    # protection
    send_pending_max: Annotated[
        int, Meta(ge=1, le=1_000_000), _help("Most sends in flight; more get SYSTEM_BUSY.")
    ] = 10_000
    send_wait_ms_max: Annotated[
        int, Meta(ge=1, le=60_000), _help("A send that waited longer unwritten is refused.")
    ] = 200
    accept_sends_after_ms: Annotated[
        int, Meta(ge=0), _help("Wall clock (ms) before which sends are refused; 0 = none.")
    ] = 0
    output_bytes_max: Annotated[
        int, Meta(ge=MIB, le=4096 * MIB), _help("Unsent bytes after which a slow reader is closed.")
    ] = 64 * MIB

    # idempotent sends
    idempotency_window_seconds: Annotated[
        int, Meta(ge=1, le=7 * 86400), _help("How long a key is remembered.")
    ] = 600
    idempotency_keys_max: Annotated[int, Meta(ge=16, le=50_000_000), _help("Most keys remembered.")] = (
        1_000_000
    )

    # delayed messages
    delay_levels: Annotated[
        str,
        Meta(max_length=8192),
        _help(
            "Durations of the delay levels, as 1s 5s 1m 2h 1d, from level 1 on. After a change, waiting messages keep their due time."
        ),
    ] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    delay_horizon_seconds: Annotated[
        int, Meta(ge=1, le=10 * 365 * 86400), _help("How far ahead the instant of a timed message may lie.")
    ] = 40 * 86400
    recall_enable: Annotated[Switch, _help("A timed message may be recalled with its recall handle.")] = True

    store_replies: Annotated[
        Switch, _help("Store replies to request messages in the cluster's reply topic.")
    ] = True

    # pulls
    long_polling_enable: Annotated[
        Switch, _help("Hold pulls until data comes; off: answer after at most a second.")
    ] = True
    pull_bytes_max: Annotated[
        int, Meta(ge=1024, le=16 * MIB), _help("Most message bytes of one pull reply.")
    ] = 256 * 1024
    property_filter_enable: Annotated[
        Switch, _help("Serve SQL92 filters; off: subscriptions with one are refused.")
    ] = True
    slave_read_enable: Annotated[
        Switch,
        _help(
            "Tell consumers that read far behind, beyond 40 % of the memory, to pull from a follower; which one, their group says (whichBrokerWhenConsumeSlowly)."
        ),
    ] = False
    server_side_reset: Annotated[
        Switch,
        _help("Resets change the store's offsets; off: they only notify the clients, as before RocketMQ 5."),
    ] = True
    protect_broker: Annotated[
        Switch, _help("Refuse pulls of groups that fell behind fallbehind_bytes_max.")
    ] = False
    fallbehind_bytes_max: Annotated[
        int, Meta(ge=MIB), _help("Log bytes behind from which a group counts as too slow.")
    ] = 16 * 1024 * MIB

    @property
    def http_hosts(self) -> str:
        """The names that requests at the HTTP port may use besides its own: also the advertised one, by which gateways ask who leads."""
        return ",".join(filter(None, (self.allowed_hosts, self.advertise)))

    @property
    def http_port_used(self) -> int:
        """HTTP port. Stays 0 (any free port) when the remoting port is 0."""
        return self.http_port or (self.port + 2 if self.port else 0)

    @property
    def fast_port_used(self) -> int:
        """Fast port. Stays 0 (any free port) when the remoting port is 0."""
        return self.fast_port or (self.port - 2 if self.port else 0)

    def advertised_host(self, reachable_address: Callable[[str], str]) -> str:
        """Return the host advertised to clients. `reachable_address`: the Environment's."""
        return self.advertise or reachable_address(self.listen)


IMPORTANT = (
    "listen",
    "port",
    "advertise",
    "cluster_name",
    "broker_name",
    "nameservers",
    "store_dir",
    "flush",
    "auto_create_topics",
    "topic_queues_default",
    "broker_permission",
    "reserved_hours",
    "delete_when",
    "message_bytes_max",
)
"""Settings that -m prints: those an operator checks first."""
