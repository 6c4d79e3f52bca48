"""The call that ends the rotation of the cluster's key."""

from typing import TYPE_CHECKING

from gateway.http.call import Call
from gateway.requests.operations import Operation, Operations
from gateway.users.schemas import Resealed, ResealOrder, Unopened
from gateway.users.switch import Switch

if TYPE_CHECKING:
    from gateway.users.accounts import Accounts


def reseal_routes(accounts: "Switch[Accounts]") -> list[Operation]:
    """Return the route."""
    calls = Operations("users")

    @calls.post("/v1/access:reseal", 400, 404, 409, 413, 415, 501)
    async def reseal_secrets(call: Call, body: ResealOrder | None = None) -> Resealed:
        """Seal every secret with the current key that an old one sealed; then the old key may leave the key file."""
        is_dry_run = body is not None and body.dry_run
        found = await accounts.on().reseal(call, is_dry_run=is_dry_run)
        unopened = [Unopened(user, reason) for user, reason in found.unopened.items()]
        return Resealed([before.name for before, _after in found.changed], unopened, is_dry_run)

    return calls.all
