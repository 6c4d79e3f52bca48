"""Policies of users: list, show, replace, delete."""

from typing import TYPE_CHECKING

from gantry_access.model.users import Subject as PolicySubject
from gateway.http.call import Call
from gateway.requests.operations import Details, Operation, Operations
from gateway.users.schemas import (
    AllPoliciesShown,
    PoliciesBody,
    PoliciesShown,
    PoliciesTaken,
    Subject,
    Taken,
)
from gateway.users.shown import page_of, policies_of, policies_shown
from gateway.users.switch import Switch
from gateway.users.user_routes import LIST_DEFAULT, After, Filter, PageMax

_PUT = Details(
    body_example={
        "custom": [{"resource": "Topic:orders*", "actions": ["Pub", "Sub"], "networks": ["10.0.0.0/8"]}]
    },
)

if TYPE_CHECKING:
    from gateway.users.accounts import Accounts


def policy_routes(accounts: "Switch[Accounts]") -> list[Operation]:
    """Return the routes."""
    calls = Operations("users")

    @calls.get("/v1/policies", 400, 404)
    async def list_policies(
        filter_: Filter = "", max_: PageMax = LIST_DEFAULT, after: After = ""
    ) -> AllPoliciesShown:
        """List the policies of users by name."""
        found = [
            (one.subject.name, one) for one in accounts.on().table.policies() if filter_ in one.subject.name
        ]
        policies, more = page_of(found, after, max_)
        return AllPoliciesShown([policies_shown(one) for one in policies], more)

    @calls.get("/v1/policies/{subject}", 400, 404)
    async def show_policies(subject: Subject) -> PoliciesShown:
        """Show all policies of a user."""
        return policies_shown(accounts.on().account(_name(subject)).policies)

    @calls.put("/v1/policies/{subject}", 400, 403, 404, 409, 413, 415, 501, details=_PUT)
    async def put_policies(call: Call, subject: Subject, body: PoliciesBody) -> PoliciesTaken:
        """Replace all policies of a user."""
        found = accounts.on()
        policies = policies_of(_name(subject), body)
        return PoliciesTaken(policies_shown(policies), await found.put_policies(call, policies))

    @calls.delete("/v1/policies/{subject}", 400, 403, 404, 409, 501)
    async def delete_policies(call: Call, subject: Subject) -> Taken:
        """Delete all policies of a user."""
        return Taken("deleted", await accounts.on().delete_policies(call, _name(subject)))

    return calls.all


def _name(subject: str) -> str:
    """Return the user of a subject, which may be written as its name alone."""
    return PolicySubject.parse(subject).name if ":" in subject else subject
