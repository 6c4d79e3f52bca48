"""Who calls, and what a user may do and why."""

from typing import TYPE_CHECKING

from gantry_access.errors import AccessError
from gantry_access.explain import RuleExplained, explanation_of
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress
from gantry_access.rights.requirements import GET, cluster_need
from gateway.http.call import Call
from gateway.http.problems import invalid
from gateway.messages.message_view import rfc3339
from gateway.requests.operations import Details, Operation, Operations
from gateway.users.schemas import Explained, Question, RuleShown, WhoAmI
from gateway.users.shown import actions_of, entry_shown, resource_of, scope_shown
from gateway.users.switch import Switch

_EXPLAIN = Details(
    body_example={"user": "alice", "actions": ["Pub"], "resource": "Topic:orders", "from": "10.0.0.5"},
    reply_description="Whether the user may, the rule that decides, and the others.",
)

if TYPE_CHECKING:
    from gateway.users.accounts import Accounts


def explain_routes(accounts: "Switch[Accounts]", cluster: str) -> list[Operation]:
    """Return the routes. `cluster` is the one whose rights count here."""
    calls = Operations("users")

    @calls.post("/v1/access:explain", 400, 403, 404, 413, 415, details=_EXPLAIN)
    async def explain(call: Call, body: Question) -> Explained:
        """Explain whether a user may do something: any user about itself, with Get on the cluster about others."""
        found = accounts.on()
        asker = "" if call.admission is None or call.admission.caller is None else call.admission.caller.user
        user = asker if body.user is None else body.user
        if user != asker:
            call.check_also([cluster_need(cluster, GET)])
        need = Need(resource_of(body.resource, "resource"), actions_of(body.actions, "actions"))
        source = None if body.from_ is None else _address(body.from_)
        explained = explanation_of(found.table.state, user, need, source, found.now_ms())
        verdict = explained.verdict
        rules = [_shown(one) for one in explained.rules]
        return Explained(user, verdict.is_allowed, verdict.reason.value, rules, explained.text)

    @calls.get("/v1/access:whoami", 404)
    async def whoami(call: Call) -> WhoAmI:
        """Show who calls, as access control sees it."""
        found, admission = accounts.on(), call.admission
        assert admission is not None, "access control admitted the call"
        caller = admission.caller
        assert caller is not None, "no head of this call is known"
        assert caller.way != "permitted", "a call about access proves its user in every mode"
        account = found.table.state.find(caller.user)
        return WhoAmI(
            caller.user,
            "Inner" if account is None else account.user.type.value,
            caller.way,
            caller.token_id or None,
            None if caller.scope is None else scope_shown(caller.scope),
            None if caller.ends_ms is None else rfc3339(caller.ends_ms),
            call.client,
        )

    return calls.all


def _shown(one: RuleExplained) -> RuleShown:
    return RuleShown(one.part.value, one.rule.type.value, entry_shown(one.rule.entry), one.why)


def _address(text: str) -> SourceAddress:
    try:
        return SourceAddress.parse(text)
    except AccessError as error:
        raise invalid("from", str(error), "an IP address") from error
