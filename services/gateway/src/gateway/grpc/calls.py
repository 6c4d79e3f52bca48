"""Who makes a call."""

from typing import Final, NamedTuple

from gantry_link.grpc.calls import CallInfo
from gateway.grpc.codes import Refused
from gateway.grpc.proto.enums import Code

CLIENT_ID: Final = b"x-mq-client-id"
LANGUAGE: Final = b"x-mq-language"
VERSION: Final = b"x-mq-client-version"
NAMESPACE: Final = b"x-mq-namespace"


class Caller(NamedTuple):
    """The client of a call, by its metadata."""

    client_id: str
    language: str
    version: str
    namespace: str
    """Counts where a name in the request has none of its own."""
    info: CallInfo

    @property
    def address(self) -> str:
        """The host of the client's connection."""
        return self.info.peer.rpartition(":")[0].strip("[]")


def caller_of(info: CallInfo) -> Caller:
    """Return the client of a call. Raises Refused if it does not name itself."""
    caller = read_caller(info)
    if not caller.client_id:
        raise Refused(Code.CLIENT_ID_REQUIRED, "the metadata x-mq-client-id is missing")
    return caller


def read_caller(info: CallInfo) -> Caller:
    """Return the client of a call; a name that is missing is empty."""
    headers = info.headers
    client_id, language, version, namespace = (
        headers.get(name, b"").decode(errors="replace").strip()
        for name in (CLIENT_ID, LANGUAGE, VERSION, NAMESPACE)
    )
    return Caller(client_id, language, version, namespace, info)
