"""`gantrymq access policies …`: list, show, allow, deny, set, delete."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gantrymq.cli.calls import path_of
from gantrymq.cli.commands.access.asking import ResourceName
from gantrymq.cli.commands.access.users import Filter, User, pages_of
from gantrymq.cli.options import Yes
from gantrymq.cli.session import Session, command
from gantrymq.cli.stops import FAILED, NOT_FOUND, WRONG_USE, Stop

KINDS = ("custom", "default")
COLUMNS = ("user", "decision", "actions", "resource", "from", "kind")
Actions = Annotated[
    str,
    typer.Argument(
        metavar="ACTIONS", help="Pub, Sub, Create, Update, Delete, Get, List or All; several as Pub,Sub."
    ),
]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="NETWORK", help="Only from this address or network, as 10.0.0.0/8; repeatable."
    ),
]
PolicyFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="All policies of the user, as `policies show --json` prints them."),
]
Default = Annotated[
    bool, typer.Option("--default", help="An entry that counts only if no other one matches.")
]
ResourceOption = Annotated[
    str | None, typer.Option("--resource", metavar="RESOURCE", help="Only the entries on this resource.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    policies = typer.Typer(help="Policies: list, show, allow, deny, set, delete.", no_args_is_help=True)
    app.add_typer(policies, name="policies")
    command(policies, "list", "gantrymq access policies list\ngantrymq access policies list --filter shop")(
        list_policies
    )
    command(policies, "show", "gantrymq access policies show shop")(show)
    allows = "gantrymq access policies allow shop Pub Topic:orders\ngantrymq access policies allow billing Sub,Get 'Topic:or*' --from 10.0.0.0/8"
    command(policies, "allow", allows)(allow)
    command(policies, "deny", "gantrymq access policies deny shop All Topic:payroll")(deny)
    command(
        policies,
        "set",
        "gantrymq access policies set shop shop.json",
    )(replace)
    deletes = "gantrymq access policies delete shop --resource Topic:orders\ngantrymq access policies delete shop --yes"
    command(policies, "delete", deletes)(delete)


def list_policies(session: Session, text: Filter = "") -> None:
    """List the entries of all users."""
    found = pages_of(session, "policies", text=text)
    rows = [row for one in found["policies"] for row in _rows(one)]
    session.screen.show(
        found,
        lambda: session.screen.table(
            COLUMNS, rows, "no policies yet: gantrymq access policies allow USER ACTIONS RESOURCE"
        ),
    )


def show(session: Session, user: User) -> None:
    """Show the entries of a user."""
    found = session.get(path_of("policies", user))
    session.screen.show(found, lambda: session.screen.table(COLUMNS, _rows(found), f"{user} has no policies"))


def allow(
    session: Session,
    user: User,
    actions: Actions,
    resource: ResourceName,
    networks: Networks = None,
    default: Default = False,
) -> None:
    """Add an entry that allows actions on a resource."""
    _add(session, user, entry_of("Allow", actions, resource, networks), default=default)


def deny(
    session: Session,
    user: User,
    actions: Actions,
    resource: ResourceName,
    networks: Networks = None,
    default: Default = False,
) -> None:
    """Add an entry that denies actions on a resource."""
    _add(session, user, entry_of("Deny", actions, resource, networks), default=default)


def replace(session: Session, user: User, file: PolicyFile) -> None:
    """Replace all entries of a user by those of a file."""
    try:
        body: dict[str, Any] | list[Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Stop(f"there is no file {file}", NOT_FOUND) from None
    except (OSError, ValueError) as error:
        raise Stop(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", WRONG_USE) from error
    if not isinstance(body, dict):
        raise Stop(f"{file} holds no policies: see gantrymq access policies show {user} --json", WRONG_USE)
    _put(session, user, {name: part for name, part in body.items() if name != "subject"})


def delete(session: Session, user: User, resource: ResourceOption = None, yes: Yes = False) -> None:
    """Delete the entries of a user, or those on one resource."""
    if resource is None:
        session.confirm(f"Delete all policies of {user}?", is_sure=yes)
        answer = session.calls.call("DELETE", path_of("policies", user))
        session.screen.show(
            {"user": user, **answer}, lambda: session.screen.line(f"deleted the policies of {user}")
        )
        return
    held = session.get(path_of("policies", user))
    kept = {kind: [one for one in held[kind] if one["resource"] != resource] for kind in KINDS}
    if all(len(kept[kind]) == len(held[kind]) for kind in KINDS):
        raise Stop(f"{user} has no entry on {resource}; gantrymq access policies show {user}", NOT_FOUND)
    _put(session, user, kept)


def _put(session: Session, user: str, body: dict[str, Any]) -> None:
    answer = session.put(path_of("policies", user), body)
    words = f"{user} has {_counted(answer['policies'])}"
    session.screen.show(answer, lambda: session.screen.line(words))


def _add(session: Session, user: str, entry: dict[str, Any], *, default: bool) -> None:
    held = session.get(path_of("policies", user))
    entries = {kind: list(held[kind]) for kind in KINDS}
    kind = KINDS[1] if default else KINDS[0]
    if entry in entries[kind]:
        raise Stop(f"{user} has this entry already", FAILED)
    entries[kind].append(entry)
    answer = session.put(path_of("policies", user), entries)
    words = f"{user}: {entry['decision']} {', '.join(entry['actions'])} on {entry['resource']}"
    place = f" from {', '.join(entry['networks'])}" if entry["networks"] else ""
    session.screen.show(answer, lambda: session.screen.line(f"{words}{place}"))


def entry_of(decision: str, actions: str, resource: str, networks: list[str] | None) -> dict[str, Any]:
    """Return an entry in the gateway's form."""
    names = [name.strip() for name in actions.split(",") if name.strip()]
    return {"resource": resource, "actions": names, "decision": decision, "networks": networks or []}


def _rows(found: dict[str, Any]) -> list[tuple[object, ...]]:
    return [
        (
            found["subject"].removeprefix("User:"),
            one["decision"],
            ", ".join(one["actions"]),
            one["resource"],
            ", ".join(one["networks"]),
            kind,
        )
        for kind in KINDS
        for one in found[kind]
    ]


def _counted(answer: dict[str, Any]) -> str:
    number = sum(len(answer[kind]) for kind in KINDS)
    return "1 entry" if number == 1 else f"{number} entries"
