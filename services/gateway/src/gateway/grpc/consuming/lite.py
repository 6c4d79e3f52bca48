"""SyncLiteSubscription: lite topics are not served, and the answer says so."""

from gateway.grpc.calls import Caller
from gateway.grpc.codes import status
from gateway.grpc.proto.enums import Code
from gateway.grpc.proto.routing import SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse


async def sync_lite_subscription(
    _caller: Caller, _request: SyncLiteSubscriptionRequest
) -> SyncLiteSubscriptionResponse:
    """Refuse every subscription of lite topics."""
    return SyncLiteSubscriptionResponse(status=status(Code.NOT_IMPLEMENTED, "there are no lite topics here"))
