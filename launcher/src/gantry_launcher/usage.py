"""The commands and their --help text. Imports nothing, because every command line loads it."""

USAGE = """\
usage: ./gantry COMMAND [options]

  up        install what is missing, start everything, wait until a message passes from send to receive
              --data DIR           directory for all data (default ./data)
              --free-ports         use free ports instead of the well-known ones
              --port-base N        use the ports from N upward
              --brokers N          number of broker-stores (default 1)
              --replicas N         stores that keep the same log, for each broker: 1, 2, 3 or 5 (default: as the data directory has, 1 in a new one)
              --gateway-workers N  number of gateway processes on the HTTP port (default 1)
              --grpc-advertise HOST:PORT   where gRPC clients reach the gateways (default: where each client says that it came to)
              --flush sync|async   acknowledge sends after fdatasync (default) or after the write
              --replication sync|async   with replicas: acknowledge sends when every store in sync has them (default), or the leader alone
              --listen ADDR        address to bind instead of 127.0.0.1; needs --access or --insecure
              --access             switch access control on first (as `access init`)
              --insecure           let other machines reach a system without access control
              --hung-seconds N     kill and restart a process without a response for N seconds (default 30; 0: never)
              --timeout N          stop with exit status 1 if the system is not ready N seconds after its processes started
                                   (default 0: wait forever, for example for space on a full disk)
              --detach             return once ready; the system keeps running
              --json               print one JSON line on stdout when ready
              --set service.key=value   any setting of nameserver, broker-store (or broker-a, …),
                                        scheduler, txn-checker, gateway
  access init     [--data DIR] [--user NAME] [--keys DIR] [--json]   switch access control on at the next start: make the
                                   keys and the first user, and show its secret once (docs/operations.md#access-control)
              --rotate-key         add a new current key
  access off      [--data DIR] [--json]   switch access control off at the next start; the keys are kept
  access dry-run  FILE...          show which requests of the last hour the policies in these files would have decided differently
              --minutes N, --audit FILE..., --json    the time to look at (default 60); the audit logs to read; one JSON line
  status    [--data DIR] [--json]  show the processes and their state
  down      [--data DIR]           stop the system and wait for its end
  replicas  rebuild-register BROKER   make the lost register of a broker with replicas again, while the system is stopped (docs/replication.md)
              --without NAME, --replace, --yes    a replica that is lost for good; remove a stream that has lost records; do not ask
  restart   --rolling [--data DIR] restart the stores of brokers with replicas one after the other: followers first, then the leader, which hands over
              --all                also the processes without replicas (not NATS and Valkey); their callers wait or try again
              --timeout N          stop when a step comes no nearer for N seconds (default 120)
  replicas  add BROKER [--data DIR]           give a running broker one more replica, from 2 on, by a rolling restart
            remove BROKER NAME [--data DIR]   take one away, down to 2; --timeout N as for restart
  test      [pytest arguments]     run check, then all tests (long runs: -m soak)
              --workers N          number of processes that share the test files (default: one more than cores, at most 4)
  check                            format, lint, types, import rules, spelling
  demo [--replicas N]              show the main features in a minute, with a kill -9 of the store under load
  bench     [NAME...]              measure; without NAME everything, with one table at the end (--list: the names)
              --against SYSTEMS    compare with other installed brokers: rocketmq,nats,redis,rabbitmq
              --out DIR, --only NAME..., --skip NAME..., --quick, --jars DIR:DIR, --table FILE..., --into DOCUMENT   bench/README.md
  simulate  [--lives N]            let stores, nameserver and clients live under virtual time and faults (docs/simulation.md)
              --seed N             replay one life with its history; --shrink: without what its failure does not need
              --minutes M, --processes N, --save FILE, --plan FILE    options: ./gantry simulate --help

  report    [--data DIR | --store DIR...]  report on the stores' logs as one HTML page, JSON and Parquet (docs/reports.md)
  export    --topic T --to parquet|delta|iceberg --out DIR  export a topic to a table, every message once (docs/spark.md)
              both install Spark at first use; options: ./gantry export --help
  load      PROFILE                run a load over HTTP, check every message, give a verdict (docs/load.md)
              --list               list the profiles, each with its question
              --host URL           a running gateway; without it the run starts its own system
              --users N, --rate N, --seconds N, --size BYTES, --count N    size and duration of the load
              --headless, --json, --out DIR                                without the web page; one JSON line; a report
              --max-p99-ms N, --max-lost N, --min-rate N, …                limits of the verdict: ./gantry load --help

  send, pull, tail, receive, ack, nack, consume, topic, group, broker, cluster, lag, offsets, message, dlq, schedule,
  txn, task, access, doctor, completion    use and administer a running system, selected with --data DIR: ./gantry send --help, docs/cli.md

Exit status: 0 done (also `down` with nothing to stop), 1 failed, or `status` with nothing running, 2 refused (one line on stderr gives the reason); for the commands in the last block
also 3 not found, 4 unreachable.
"""
CLIENT_COMMANDS = (
    "send", "pull", "tail", "receive", "ack", "nack", "consume", "topic", "group", "broker", "cluster", "lag", "offsets",
    "message", "dlq", "schedule", "txn", "task", "access", "doctor", "completion",
)  # fmt: skip
"""Commands of the client; the launcher passes them to it."""
ACCESS_WORDS = ("init", "off", "dry-run")
"""Words after `access` that the launcher does itself; the client does the others."""
COMPLETING = "_GANTRY_COMPLETE"
"""Set by a shell that asks for completions at the cursor."""
