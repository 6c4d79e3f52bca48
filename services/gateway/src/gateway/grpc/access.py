"""Who may make a call: users with their rights, or else holders of the one token, if it is set. As for HTTP."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from gantry_access.rights.grpc_table import GrpcAsked
from gantry_chassis.http.authorizing import Denial
from gateway.grpc.calls import Caller
from gateway.grpc.codes import Refused
from gateway.grpc.names import full_name
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import Code
from gateway.grpc.proto.settings import Settings

if TYPE_CHECKING:
    from gantry_guard.grpc_door import GrpcDoor

_CODES: Final = {400: Code.BAD_REQUEST, 401: Code.UNAUTHORIZED, 403: Code.FORBIDDEN}
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"bearer"


class GrpcAccess:
    """Admits calls."""

    def __init__(self, token: str, door: GrpcDoor | None) -> None:
        """`door` knows users and rights: access control is on. With both, who proves no user and is permitted nevertheless needs the token."""
        self._token, self._door = token.encode(), door

    @property
    def has_users(self) -> bool:
        """Whether each call needs a user with its rights."""
        return self._door is not None

    @property
    def moment(self) -> object:
        """What users, policies, tokens and keys are now: another value once any has changed."""
        return None if self._door is None else self._door.versions

    def admit(self, method: str, caller: Caller, request: Any) -> str:
        """Return the user that makes a call, empty if none is proved. Raises Refused unless the client may make it."""
        if self._door is None:
            self._check_token(caller)
            return ""
        info = caller.info
        found = self._door.admit(
            method, asked_of(method, caller, request), info.headers, caller.address, info.user
        )
        if isinstance(found, Denial):
            raise Refused(_CODES.get(found.status, Code.INTERNAL_SERVER_ERROR), found.words)
        if found.is_permitted:
            self._check_token(caller)
        return found.user

    def _check_token(self, caller: Caller) -> None:
        if not self._token:
            return
        scheme, _, given = caller.info.headers.get(_AUTHORIZATION, b"").partition(b" ")
        if scheme.lower() != _BEARER or not hmac.compare_digest(given.strip(), self._token):
            raise Refused(Code.UNAUTHORIZED, "add the metadata authorization: Bearer …")


def asked_of(method: str, caller: Caller, request: Any) -> GrpcAsked:
    """Return the names of a request that its rights depend on."""
    read = _READ.get(method)
    return GrpcAsked() if read is None else read(request, _Names(caller.namespace))


class _Names:
    """Makes the names that the stores know."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def __call__(self, resource: Resource) -> str:
        return full_name(resource, self._namespace)

    def all(self, resources: Iterable[Resource]) -> tuple[str, ...]:
        return tuple(self(one) for one in resources)


_Read = Callable[[Any, _Names], GrpcAsked]


def _topic(request: Any, names: _Names) -> GrpcAsked:
    return GrpcAsked((names(request.topic),))


def _group(request: Any, names: _Names) -> GrpcAsked:
    return GrpcAsked((names(request.topic),), names(request.group))


def _queue(request: Any, names: _Names) -> GrpcAsked:
    topics = (names(request.message_queue.topic),) if request.HasField("message_queue") else ()
    return GrpcAsked(topics, names(request.group))


def _queue_alone(request: Any, names: _Names) -> GrpcAsked:
    topics = (names(request.message_queue.topic),) if request.HasField("message_queue") else ()
    return GrpcAsked(topics)


def _messages(request: Any, names: _Names) -> GrpcAsked:
    return GrpcAsked(names.all(message.topic for message in request.messages))


def _heartbeat(request: Any, names: _Names) -> GrpcAsked:
    return GrpcAsked(group=names(request.group), client_type=request.client_type)


def _termination(request: Any, names: _Names) -> GrpcAsked:
    return GrpcAsked(group=names(request.group))


def _telemetry(command: Any, names: _Names) -> GrpcAsked:
    if command.WhichOneof("command") != "settings":
        return GrpcAsked()
    settings: Settings = command.settings
    match settings.WhichOneof("pub_sub"):
        case "publishing":
            return GrpcAsked(names.all(settings.publishing.topics), command="publishing")
        case "subscription":
            topics = names.all(one.topic for one in settings.subscription.subscriptions)
            return GrpcAsked(topics, names(settings.subscription.group), command="subscription")
        case _:
            return GrpcAsked(command="empty settings")


_READ: Final[dict[str, _Read]] = {
    "QueryRoute": _topic,
    "Heartbeat": _heartbeat,
    "SendMessage": _messages,
    "QueryAssignment": _group,
    "ReceiveMessage": _queue,
    "AckMessage": _group,
    "ForwardMessageToDeadLetterQueue": _group,
    "EndTransaction": _topic,
    "Telemetry": _telemetry,
    "NotifyClientTermination": _termination,
    "ChangeInvisibleDuration": _group,
    "RecallMessage": _topic,
    "SyncLiteSubscription": _group,
    "PullMessage": _queue,
    "UpdateOffset": _queue,
    "GetOffset": _queue,
    "QueryOffset": _queue_alone,
}
