"""Sends a request to a connected client and waits for its answer. Maps failures to RocketMQ's codes."""

from broker_store.groups.clients import Client
from gantry_link.errors import LinkError, RequestTimedOut
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command

Fields = dict[str, str]
RELAY_SECONDS = 10.0
"""Longest wait for a client's answer (RocketMQ's broker: 10 s)."""
CREDENTIALS = frozenset({"AccessKey", "SecurityToken", "Signature"})
"""Fields of a signed request that are for the broker alone. A signature covers neither the code nor the names of fields: a client that
gets a tool's signature can send other requests with it."""


async def ask_client(
    client: Client, code: int, fields: Fields, body: bytes = b"", seconds: float = RELAY_SECONDS
) -> Command:
    """Return the client's answer. The client gets no credentials of the tool that asks. Raises CONSUME_MSG_TIMEOUT, or SYSTEM_ERROR when its connection ends meanwhile."""
    fields = {name: value for name, value in fields.items() if name not in CREDENTIALS}
    try:
        return await client.peer.request(code, fields, body, seconds)
    except RequestTimedOut as error:
        remark = f"the client {client.client_id} did not answer within {seconds:g} s"
        raise RefusedRequest(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from error
    except LinkError as error:
        remark = f"the client {client.client_id} is gone: {error}"
        raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark) from error
