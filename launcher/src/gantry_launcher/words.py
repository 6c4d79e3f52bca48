"""The words that may be typed, and what --help says of them. Imports nothing: every command line begins here."""

USAGE = """\
usage: ./gantry COMMAND [options]

  up        install what is missing, start everything, wait until a message makes the round trip
              --data DIR           where everything is kept (default ./data)
              --free-ports         take free ports instead of the well-known ones
              --port-base N        take the ports from N upward
              --brokers N          how many broker-stores (default 1)
              --gateway-workers N  how many gateway processes share the HTTP port (default 1)
              --flush sync|async   answer sends after fdatasync (default), or after the write
              --listen ADDR        address to bind instead of 127.0.0.1
              --hung-seconds N     kill and start again what answers nothing for so long (default 30; 0: never)
              --timeout N          stop it again, with exit status 1, when it is not ready N seconds after the processes began
                                   (default 0: wait without end, for example for room on a full disk)
              --detach             return once ready and leave it running
              --json               print one JSON line on stdout when ready
              --set service.key=value   any setting of nameserver, broker-store (or broker-a, …),
                                        scheduler, txn-checker, gateway
  status    [--data DIR] [--json]  what runs, and how it is
  down      [--data DIR]           stop it and wait
  test      [pytest arguments]     check, then the whole test suite (long runs: -m soak)
              --workers N          how many processes share the tests, file by file (default: one per core, at most 4)
  check                            format, lint, types, import rules, spelling
  demo                             the main job in a minute, with a kill -9 of the store under load
  bench     [NAME...]              measure; without a name, all of it, one table at the end (--list: what there is)
              --against SYSTEMS    other brokers beside, where they are installed: rocketmq,nats,redis,rabbitmq
              --out DIR, --only NAME..., --skip NAME..., --quick, --jars DIR:DIR, --table FILE..., --into DOCUMENT   bench/README.md

  report    [--data DIR | --store DIR...]  what the stores' logs say, as one page to look at, JSON and Parquet (docs/reports.md)
  export    --topic T --to parquet|delta|iceberg --out DIR  a topic as a table, every message once (docs/spark.md)
              both install Spark at their first use, and tell their options: ./gantry export --help
  load      PROFILE                load a system over HTTP, check every message, judge it (docs/load.md)
              --list               the profiles, each with its question
              --host URL           a gateway that runs; without it a system is started for the run
              --users N, --rate N, --seconds N, --size BYTES, --count N    how much, and how long
              --headless, --json, --out DIR                                without a page; a line of JSON; a report
              --max-p99-ms N, --max-lost N, --min-rate N, …                what the verdict allows: ./gantry load --help

  send, pull, tail, receive, ack, nack, consume, topic, group, broker, cluster, lag, offsets, message, dlq, schedule,
  txn, task, doctor, completion    use and look after a running system, --data DIR says which: ./gantry send --help, docs/cli.md

Exit status: 0 done (also `down` with nothing to stop), 1 failed, or `status` with nothing running, 2 refused (one line on stderr says why); of the words in the last block
also 3 not found, 4 unreachable.
"""
CLIENT_WORDS = (
    "send", "pull", "tail", "receive", "ack", "nack", "consume", "topic", "group", "broker", "cluster", "lag", "offsets",
    "message", "dlq", "schedule", "txn", "task", "doctor", "completion",
)  # fmt: skip
"""What the command line of the client knows; the launcher hands these to it."""
COMPLETING = "_GANTRY_COMPLETE"
"""Set by a shell that asks what may stand at the cursor."""
