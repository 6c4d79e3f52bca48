"""`gantrymq broker …` and `gantrymq cluster …`."""

from typing import Annotated, Any

import typer

from gantrymq.cli import values
from gantrymq.cli.calls import path_of
from gantrymq.cli.commands import replicas
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import NOT_FOUND, WRONG_USE, Stop

Broker = Annotated[str, typer.Argument(metavar="BROKER", help="Name of the broker.")]
Settings = Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Settings by RocketMQ's names.")]
ShowSettings = Annotated[bool, typer.Option("--settings", help="Its settings instead of its statistics.")]
FIGURES = (
    "brokerVersionDesc", "bootTimestamp", "putTps", "getTransferredTps", "msgPutTotalTodayNow", "commitLogDiskRatio",
    "dispatchBehindBytes", "commitLogMinOffset", "commitLogMaxOffset", "sendThreadPoolQueueSize",
)  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    broker = typer.Typer(help="Brokers: list, show, set.", no_args_is_help=True)
    app.add_typer(broker, name="broker")
    command(broker, "list", "gantrymq broker list")(list_brokers)
    command(broker, "show", "gantrymq broker show broker-a\ngantrymq broker show broker-a --settings")(show)
    command(broker, "set", "gantrymq broker set broker-a fileReservedTime=96")(change)
    cluster = typer.Typer(help="Clusters: list, show, replicas, move-leader.", no_args_is_help=True)
    app.add_typer(cluster, name="cluster")
    command(cluster, "list", "gantrymq cluster list")(list_clusters)
    command(cluster, "show", "gantrymq cluster show DefaultCluster")(show_cluster)
    replicas.add_to(cluster)


def list_brokers(session: Session) -> None:
    """List the brokers."""
    found = session.get(path_of("brokers"))
    rows = [
        (
            one["broker"],
            one["cluster"],
            one["address"],
            "alive" if one["alive"] else "away",
            _rate(one["putTps"]),
            _rate(one["getTps"]),
            one["messagesToday"],
        )
        for one in found["brokers"]
    ]
    columns = ("broker", "cluster", "address", "state", "sends/s>", "reads/s>", "today>")
    session.screen.show(
        found, lambda: session.screen.table(columns, rows, "no broker is known to the gateway")
    )


def show(session: Session, broker: Broker, settings: ShowSettings = False) -> None:
    """Show a broker: its statistics by RocketMQ's names, or its settings."""
    if settings:
        found = session.get(path_of("brokers", broker, "settings"))
        session.screen.show(found, lambda: session.screen.fields(sorted(found["settings"].items())))
        return
    one = next((one for one in session.get(path_of("brokers"))["brokers"] if one["broker"] == broker), None)
    if one is None:
        raise Stop(
            f"broker {broker} is not known to the gateway; gantrymq broker list shows the brokers", NOT_FOUND
        )
    pairs: list[tuple[str, object]] = [
        ("broker", broker), ("cluster", one["cluster"]), ("address", one["address"]), ("state", "alive" if one["alive"] else "away"),
    ]  # fmt: skip
    pairs += [(name, one["runtime"][name]) for name in FIGURES if name in one["runtime"]]
    session.screen.show(one, lambda: session.screen.fields(pairs))


def change(session: Session, broker: Broker, settings: Settings) -> None:
    """Change settings of a running broker; the broker saves them."""
    try:
        wanted = values.pairs_of(settings, "setting")
    except ValueError as error:
        raise Stop(str(error), WRONG_USE) from None
    answer = session.calls.call("PATCH", path_of("brokers", broker, "settings"), {"settings": wanted})
    session.screen.show(
        answer, lambda: session.screen.fields((name, answer["settings"].get(name)) for name in wanted)
    )


def list_clusters(session: Session) -> None:
    """List clusters, their brokers, and the nameservers."""
    found = session.get(path_of("cluster"))

    def people() -> None:
        rows = [(one["name"], one["brokers"]) for one in found["clusters"]]
        session.screen.table(("cluster", "brokers"), rows, "no broker is known to the gateway")
        session.screen.line("")
        held = [(one["address"], "alive" if one["alive"] else "away") for one in found["nameservers"]]
        session.screen.table(("nameserver", "state"), held)
        session.warn_missing(found["missing"])

    session.screen.show(found, people)


def show_cluster(
    session: Session, cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the cluster.")]
) -> None:
    """Show the brokers of a cluster."""
    held: list[dict[str, Any]] = [
        one for one in session.get(path_of("brokers"))["brokers"] if one["cluster"] == cluster
    ]
    if not held:
        raise Stop(
            f"cluster {cluster} is not known to the gateway; gantrymq cluster list shows the clusters",
            NOT_FOUND,
        )
    rows = [
        (one["broker"], one["address"], "alive" if one["alive"] else "away", one["version"]) for one in held
    ]
    shown = {"cluster": cluster, "brokers": held}
    session.screen.show(shown, lambda: session.screen.table(("broker", "address", "state", "version"), rows))


def _rate(text: str) -> str:
    """Return the first of three averages (10 s, 1 min, 10 min)."""
    first = text.split(" ", maxsplit=1)[0] if text else ""
    try:
        return f"{float(first):.1f}"
    except ValueError:
        return first
