"""Reads RocketMQ's broker.conf: maps keys to settings, reports keys without effect, refuses contradictions."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from broker_store.log.settings import QUEUE_UNIT_BYTES
from broker_store.settings import Settings
from gantry_chassis.settings.loading import SettingsRefused, read_toml
from gantry_chassis.settings.tls import add_tls
from gantry_wire.names import TRACE_TOPIC


class BrokerConf(NamedTuple):
    """Settings found in a broker.conf, and its keys without effect."""

    values: dict[str, str]
    ignored: list[str]
    guarded_by: list[str]
    """Keys that switch access control on in RocketMQ. The settings must do so, too."""
    replication: str
    """What brokerRole means for the setting `replication`, empty without that key. SYNC_MASTER promises copies: the settings must name other stores."""


RENAMED = {
    "brokerName": "broker_name",
    "brokerClusterName": "cluster_name",
    "namesrvAddr": "nameservers",
    "listenPort": "port",
    "fastListenPort": "fast_port",
    "haListenPort": "ha_port",
    "brokerIP1": "advertise",
    "storePathRootDir": "store_dir",
    "mappedFileSizeCommitLog": "segment_bytes",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_entries",
    "maxMessageSize": "message_bytes_max",
    "messageIndexEnable": "index_enable",
    "fileReservedTime": "reserved_hours",
    "deleteWhen": "delete_when",
    "diskMaxUsedSpaceRatio": "disk_ratio_max",
    "autoCreateTopicEnable": "auto_create_topics",
    "autoCreateSubscriptionGroup": "auto_create_groups",
    "defaultTopicQueueNums": "topic_queues_default",
    "brokerPermission": "broker_permission",
    "clusterTopicEnable": "cluster_topic_enable",
    "brokerTopicEnable": "broker_topic_enable",
    "traceTopicEnable": "trace_topic_enable",
    "regionId": "region",
    "traceOn": "trace_on",
    "sendThreadPoolQueueCapacity": "send_pending_max",
    "waitTimeMillsInSendQueue": "send_wait_ms_max",
    "startAcceptSendRequestTimeStamp": "accept_sends_after_ms",
    "syncFlushTimeout": "flush_timeout_ms",
    "flushIntervalCommitLog": "flush_interval_ms",
    "longPollingEnable": "long_polling_enable",
    "maxTransferBytesOnMessageInMemory": "pull_bytes_max",
    "enablePropertyFilter": "property_filter_enable",
    "slaveReadEnable": "slave_read_enable",
    "storeReplyMessageEnable": "store_replies",
    "useServerSideResetOffset": "server_side_reset",
    "disableConsumeIfConsumerReadSlowly": "protect_broker",
    "consumerFallbehindThreshold": "fallbehind_bytes_max",
    "messageDelayLevel": "delay_levels",
    "timerMaxDelaySec": "delay_horizon_seconds",
    "recallMessageEnable": "recall_enable",
    "bindAddress": "listen",
}
"""RocketMQ's key → our setting with the same meaning and unit."""

SHORT_POLLING_MS = 1000
"""Longest wait of a pull without long polling, until code 25 changes it. Has no setting."""
REPLICATION = {"SYNC_MASTER": "sync", "ASYNC_MASTER": "async"}
FLUSH = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}


def _is_on(value: str) -> bool:
    return value.strip().lower() == "true"


def _is_given(value: str) -> bool:
    return bool(value.strip())


def _is_foreign(value: str) -> bool:
    return bool(value.strip()) and not value.strip().startswith("org.apache.rocketmq.auth.")


def _is_positive(value: str) -> bool:
    return value.strip().lstrip("+").isdigit() and int(value) > 0


REFUSED: dict[str, tuple[Callable[[str], bool], str]] = {
    "brokerId": (lambda value: value.strip() != "0", "only a master (brokerId=0) runs in this version"),
    "brokerRole": (
        lambda value: value.strip() not in REPLICATION,
        "write SYNC_MASTER or ASYNC_MASTER for every replica: the group decides which of them follows",
    ),
    "enableConsumeQueueExt": (
        _is_on,
        "ConsumeQueue extensions belong to old RocketMQ versions; they are read, never written",
    ),
    "enableCalcFilterBitMap": (_is_on, "bitmap filters belong to old RocketMQ versions; remove the key"),
    "filterServerNums": (_is_positive, "filter servers belong to old RocketMQ versions; remove the key"),
    "enableDLegerCommitLog": (_is_on, "DLedger replaces the CommitLog; it is not supported"),
    "enableControllerMode": (_is_on, "controllers are not supported"),
    "enableSlaveActingMaster": (_is_on, "slaves are not in this version yet"),
    "transientStorePoolEnable": (
        _is_on,
        "a pool outside the page cache would answer before the write, which breaks the durability promise",
    ),
    "initAuthenticationUser": (
        _is_given,
        'write {"username": …, "password": …} to a file of mode 0600 and name it in access_initial_user_file: settings are logged',
    ),
    "migrateAuthFromV1Enabled": (_is_on, "name the file in plain_acl_file: the start reads its accounts"),
    "authenticationProvider": (
        _is_foreign,
        "own providers do not run here; an extension may check requests (docs/extensions.md)",
    ),
    "authorizationProvider": (
        _is_foreign,
        "own providers do not run here; an extension may check requests (docs/extensions.md)",
    ),
    "storeType": (
        lambda value: value.strip() not in {"", "default"},
        "only the file store (storeType=default) is supported",
    ),
}
"""Keys that may ask for what this broker cannot do: (whether the value does, why not)."""
GUARDED_BY = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
"""Keys that switch access control on in RocketMQ. Here each of them asks for both parts: signatures and policies."""


def read_broker_conf(path: Path) -> BrokerConf:
    """Read a file given with -c: TOML with Gantry's names if it ends in .toml, else RocketMQ's keys.

    Raises SettingsRefused, which names the key, for a contradiction.
    """
    if path.suffix == ".toml":
        return BrokerConf({name: str(value) for name, value in read_toml(path).items()}, [], [], "")
    try:
        return translate(parse_properties_file(path.read_text(encoding="utf-8")), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsRefused(f"cannot read the settings file {path}: {error}") from error


def translate(keys: dict[str, str], source: str) -> BrokerConf:
    """Translate RocketMQ's keys into settings. Pure."""
    values: dict[str, str] = {}
    ignored, guarded_by = list[str](), list[str]()
    for key, value in keys.items():
        refusal = REFUSED.get(key)
        if refusal is not None and refusal[0](value):
            raise SettingsRefused(f"{source}: {key}={value}: {refusal[1]}")
        if key == "flushDiskType":
            if value not in FLUSH:
                raise SettingsRefused(f"{source}: flushDiskType={value}: write SYNC_FLUSH or ASYNC_FLUSH")
            values["flush"] = FLUSH[value]
        elif key == "mappedFileSizeConsumeQueue":
            values["queue_file_units"] = str(_number(value, key, source) // QUEUE_UNIT_BYTES)
        elif key in RENAMED:
            values[RENAMED[key]] = value
        elif key.startswith("tls."):
            add_tls(values, ignored, key, value, source)
        elif key in GUARDED_BY:
            guarded_by += [key] if _is_on(value) else []
        elif refusal is None and key != "storePathCommitLog":
            ignored.append(key)
    _refuse_contradictions(keys, source)
    return BrokerConf(values, ignored, guarded_by, REPLICATION.get(keys.get("brokerRole", "").strip(), ""))


def refuse_open(guarded_by: list[str], settings: Settings) -> None:
    """Raise SettingsRefused if a file asks for access control and the settings leave it off: its author believes the ports closed."""
    if guarded_by and not settings.is_enforced:
        raise SettingsRefused(
            f"{guarded_by[0]}=true asks for access control, which access_key_file switches on: type ./gantry access init, "
            "give that setting without access_mode=permissive, and name a plain_acl.yml of RocketMQ 4.9 in plain_acl_file"
        )


def refuse_alone(replication: str, settings: Settings) -> None:
    """Raise SettingsRefused if a file promises copies on other stores, and the settings name none."""
    if replication == "sync" and not settings.replica:
        raise SettingsRefused(
            "brokerRole=SYNC_MASTER promises that another store has each message: name the stores of the group in replica and replicas"
        )


def _number(value: str, key: str, source: str) -> int:
    if not value.isdecimal():
        raise SettingsRefused(f"{source}: {key}={value}: write a number")
    return int(value)


def _refuse_contradictions(keys: dict[str, str], source: str) -> None:
    root, log_path = keys.get("storePathRootDir"), keys.get("storePathCommitLog")
    if log_path is not None and (root is None or Path(log_path) != Path(root) / "commitlog"):
        raise SettingsRefused(
            f"{source}: storePathCommitLog={log_path}: the log is always in storePathRootDir/commitlog"
        )
    ports = {name: keys[name] for name in ("listenPort", "fastListenPort", "haListenPort") if name in keys}
    if len(set(ports.values())) < len(ports):
        raise SettingsRefused(f"{source}: {ports}: each port needs its own number")
    if keys.get("brokerName", "x") == "" or keys.get("brokerClusterName", "x") == "":
        raise SettingsRefused(f"{source}: brokerName and brokerClusterName cannot be empty")


def parse_properties_file(text: str) -> dict[str, str]:
    """Parse Java's properties format as far as broker.conf uses it: comments, `key = value`, `key: value`."""
    keys: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        cut = min((at for at in (line.find("="), line.find(":")) if at >= 0), default=len(line))
        keys[line[:cut].strip()] = line[cut + 1 :].strip()
    return keys


def describe_values(settings: Settings, port: int, fast_port: int) -> dict[str, str]:
    """Return settings under RocketMQ's keys, for its tools (code 26). Ports are the actual ones, never 0."""
    is_sync = settings.replica and settings.replication == "sync"
    values: dict[str, str] = {"brokerId": "0", "brokerRole": "SYNC_MASTER" if is_sync else "ASYNC_MASTER"}
    values["flushDiskType"] = {ours: theirs for theirs, ours in FLUSH.items()}[settings.flush]
    for key, name in RENAMED.items():
        value: object = getattr(settings, name)
        values[key] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    values |= {
        "msgTraceTopicName": TRACE_TOPIC,
        "useTLS": "true" if settings.tls_client else "false",
        "filterServerNums": "0",
        "authenticationEnabled": "true" if settings.is_enforced else "false",
        "authorizationEnabled": "true" if settings.is_enforced else "false",
    }
    ports = {"listenPort": str(port), "fastListenPort": str(fast_port)}
    ports["haListenPort"] = str(settings.ha_port or port + 1)
    return values | ports | {"shortPollingTimeMills": str(SHORT_POLLING_MS)}
