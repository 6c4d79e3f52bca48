"""Names of topics and groups with their namespace, as RocketMQ's remoting clients write them: `namespace%name`. Pure."""

from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX
from gateway.grpc.proto.common import Resource


def full_name(resource: Resource, namespace: str) -> str:
    """Return the name that the stores know. `namespace` is the call's; one of the resource's own comes first.

    A name that has its namespace already stays as it is: clients return the names of delivered messages.
    """
    namespace = resource.resource_namespace or namespace
    name = resource.name
    if not namespace or not name:
        return name
    prefix = next((one for one in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(one)), "")
    rest = name.removeprefix(prefix)
    return name if rest.startswith(f"{namespace}%") else f"{prefix}{namespace}%{rest}"
